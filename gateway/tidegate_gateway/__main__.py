"""The `tidegate` command."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from .cli.command import run

    run()


if __name__ == "__main__":
    main()
