"""What is done with a claimed document."""
