"""The sync as a service of the user's own: a systemd user unit on Linux, a launchd agent on macOS."""
