"""Where posts go: one class per platform behind one interface."""
