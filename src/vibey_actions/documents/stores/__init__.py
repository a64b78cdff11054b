"""Where documents are kept: one interface, and the stores behind it."""
