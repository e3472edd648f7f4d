"""The `tidegate` command."""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

# 128 + the signal, as shells have it.
INTERRUPTED: Final = 130
TERMINATED: Final = 143
# The first process of a container.  The kernel drops signals that it has no handler for.
FIRST: Final = 1


def main() -> None:
    """Run the command line; Ctrl+C ends it quietly, also while it still loads its modules."""
    if os.getpid() == FIRST:
        # Commands that stop in order replace this handler when their modules are loaded.
        signal.signal(signal.SIGTERM, _end)
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


def _end(number: int, frame: object) -> None:
    sys.exit(TERMINATED)


if __name__ == "__main__":
    main()
