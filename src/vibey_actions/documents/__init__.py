"""Document lanes: one document per unit of work, walked through the statuses of its machine."""
