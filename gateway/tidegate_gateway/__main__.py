"""The `tidegate` command."""

from __future__ import annotations

import sys
from typing import Final

# 128 + SIGINT, as shells have it.
INTERRUPTED: Final = 130


def main() -> None:
    """Run the command line; Ctrl+C ends it quietly, also while it still loads its modules."""
    try:
        from .cli.command import run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BaseExceptionGroup as group:
        # Raised by a nursery: show its other errors.
        others = group.split(KeyboardInterrupt)[1]
        if others is not None:
            raise others from None
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
