"""Documents, seal, merge, plan and the cycle. Pure: no driver, no network."""
