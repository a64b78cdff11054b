"""Durable, encrypted PostgreSQL state on a git branch, merged three ways."""

__version__ = "0.1.0"
