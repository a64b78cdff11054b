"""Rows as canonical text. Pure."""
