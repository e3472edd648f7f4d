"""The `tidegate` command."""


def main() -> None:
    """Run the command line."""
