"""python -m tidegate_bench.clients SPEC: connect, wait for a line, work, print a JSON result."""

from __future__ import annotations

import json
import sys

from .spec import Produce, Read, Transact, from_json


def main() -> None:
    """Run the specification in the first argument."""
    spec = from_json(sys.argv[1])
    if isinstance(spec, Produce):
        from .produce import produce

        told = produce(spec, _wait_for_go)
    elif isinstance(spec, Read):
        from .read import read

        told = read(spec, _wait_for_go)
    elif isinstance(spec, Transact):
        from .transact import transact

        told = transact(spec, _wait_for_go)
    else:
        from .one_by_one import one_by_one

        told = one_by_one(spec, _wait_for_go)
    print(json.dumps(told), flush=True)


def _wait_for_go() -> None:
    print("ready", flush=True)
    if not sys.stdin.readline():
        sys.exit(1)  # the parent process has ended


if __name__ == "__main__":
    main()
