"""python -m tidegate_simulation.check FILE: judge a history (see history.py), one event a line.

Prints one violation a line; exits with 1 if there is any.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .checks.checker import check
from .checks.history import read_lines


def main(path: str) -> int:
    """Check the history in a file."""
    lines = Path(path).read_text("utf-8").splitlines()
    violations = check(read_lines(line for line in lines if line.strip()))
    for each in violations:
        print(f"{each.kind}: {each.text} (events {', '.join(map(str, each.indexes))})")
    return 1 if violations else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tidegate_simulation.check FILE")
    sys.exit(main(sys.argv[1]))
