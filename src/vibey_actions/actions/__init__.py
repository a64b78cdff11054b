"""The steps of the action: a GitHub Actions job's way into the synced state and back."""
