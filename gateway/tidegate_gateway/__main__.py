"""The `tidegate` command."""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

# Exit codes: 128 + the number of the signal, as in shells.
INTERRUPTED: Final = 130
TERMINATED: Final = 143
# The process id of a container's first process.  The kernel drops a signal to that process if the
# process has no handler for the signal.
FIRST: Final = 1


def main() -> None:
    """Run the command line; Ctrl+C ends it quietly, also while it still loads its modules."""
    if os.getpid() == FIRST:
        # A command with an orderly shutdown replaces this handler when its module is loaded.
        signal.signal(signal.SIGTERM, _end)
    try:
        from .cli.command import run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BaseExceptionGroup as group:
        # A nursery raised the group: show its other errors.
        others = group.split(KeyboardInterrupt)[1]
        if others is not None:
            raise others from None
        sys.exit(INTERRUPTED)


def _end(number: int, frame: object) -> None:
    sys.exit(TERMINATED)


if __name__ == "__main__":
    main()
