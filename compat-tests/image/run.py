"""The image of Tidegate: built from wheels, run alone, in a cluster, and its unit by systemd.

    compat-tests/run image [PART...]

Parts: gateway, containers, cluster, unit; without one all of them.  It takes some minutes and, as
root on Debian, installs the packages of tools that are missing.  Elsewhere it says that it is
skipped, and its exit code is 0.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.places import WORK
from runner.options import option
from runner.result import Result

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


@dataclass(frozen=True)
class Options:
    """The options."""

    parts: tuple[str, ...] = option((), "all by default", choices=PARTS, is_positional=True)


def main(options: Options) -> Result:
    """Run the parts."""
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"image {time.monotonic() - started:5.0f} s: {text}", flush=True)

    folder = WORK / "image"
    machine = Machine(folder)
    try:
        install(say)
        if folder.exists():
            machine.clear()  # rest of a run that was killed
        machine.prepare()
        build_base(machine, BASE, PACKAGES)
        check_python(machine)
        build_tidegate(machine, say)
        check_size(machine, say)
        for name in options.parts or PARTS:
            PARTS[name](machine, say)
    except CannotRun as error:
        say(f"skipped: {error}")
        return Result(is_good=True)
    except Failed as error:
        say(f"FAILED: {error}")
        return Result(is_good=False)
    finally:
        if folder.exists() and shutil.which("podman") is not None:
            machine.clear()
    say("all is as promised")
    return Result(is_good=True)
