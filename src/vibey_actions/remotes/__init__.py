"""Where the branch is: one interface, GitHub and git behind it."""
