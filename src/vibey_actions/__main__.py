"""``python -m vibey_actions``."""

from vibey_actions.cli.main import run

if __name__ == "__main__":
    run()
