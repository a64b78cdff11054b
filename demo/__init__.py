"""The demonstration: two databases, one sealed branch, real commands, and a check behind every sentence."""
