"""The machines that are built in, one declaration a file."""
