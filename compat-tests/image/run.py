"""The image of Tidegate: built from wheels, run alone, in a cluster, and its unit by systemd.

    .venv/bin/python compat-tests/image/run.py [PART...]

Parts: gateway, containers, cluster, unit; without one all of them.  It takes some minutes and, as
root on Debian, installs the packages of tools that are missing.  Elsewhere it says that it is
skipped, and its exit code is 0.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.places import WORK

from image.building import BASE, PACKAGES, build_base, build_tidegate, check_python, check_size
from image.cluster import check_cluster
from image.containers import check_containers
from image.gateway import check_gateway
from image.machine import CannotRun, Failed, Machine, Say, install
from image.unit import check_unit

PARTS: Final[dict[str, Callable[[Machine, Say], None]]] = {
    "gateway": check_gateway,
    "containers": check_containers,
    "cluster": check_cluster,
    "unit": check_unit,
}


def main(names: Sequence[str]) -> int:
    """Run the parts; return the exit code."""
    if unknown := sorted(set(names) - PARTS.keys()):
        print(f"no part {', '.join(unknown)}: choose of {', '.join(PARTS)}", file=sys.stderr)
        return 2
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"image {time.monotonic() - started:5.0f} s: {text}", flush=True)

    folder = WORK / "image"
    machine = Machine(folder)
    try:
        install(say)
        if folder.exists():
            machine.clear()  # a run that was killed
        machine.prepare()
        build_base(machine, BASE, PACKAGES)
        check_python(machine)
        build_tidegate(machine, say)
        check_size(machine, say)
        for name in names or PARTS:
            PARTS[name](machine, say)
    except CannotRun as error:
        say(f"skipped: {error}")
        return 0
    except Failed as error:
        say(f"FAILED: {error}")
        return 1
    finally:
        if folder.exists() and shutil.which("podman") is not None:
            machine.clear()
    say("all is as promised")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
