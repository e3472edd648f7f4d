"""Gateways of which the object store refuses one, while all others write.

    PYTHONPATH=compat-tests .venv/bin/python compat-tests/faults/refused.py --seconds 80

Each way of refusing comes once, for so long, under idempotent producers: a wrong clock (403), no
connection.  Prints the longest time that any partition got no acknowledgement and no record, by
family of clients.  Ends with 1 if a record failed, was lost or doubled, or if an acknowledgement
took longer than --most-seconds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.places import WORK

from faults.clients import FAMILIES, Load, create_topic, installed, start_families
from faults.plan import Fault
from faults.relay import Mode
from faults.run import FaultRun, Options
from faults.stalls import Happened, stall
from faults.watch import Judged, Say, Watch
from faults.world import ZONES, World, running_world

WAYS: Final = (Mode.DENY, Mode.REFUSE)
GATEWAY: Final = 1


@dataclass(slots=True)
class Refused:
    """A drill.  stalls_ms: by way of refusing and family, of acknowledgements and of records."""

    judged: Judged
    stalls_ms: dict[Mode, dict[str, tuple[int, int]]]

    @property
    def failed(self) -> int:
        """How many records failed for good."""
        return sum(self.judged.failed.values())

    @property
    def longest_ms(self) -> int:
        """The longest time without an acknowledgement."""
        return max(each for of in self.stalls_ms.values() for each, _ in of.values())


def refusals(
    folder: Path,
    clients: Sequence[str],
    say: Say,
    *,
    seconds: float,
    gateways: int = 2,
    rate: int = 60,
    ways: Sequence[Mode] = WAYS,
) -> Refused:
    """Run the drill in a folder that is empty; what was logged stays there."""
    with running_world(folder) as world:
        _keep(world, gateways)
        create_topic(world.bootstrap)
        families = start_families(clients, Load(world.bootstrap, rate), folder / "logs")
        try:
            watch = Watch(world, families, say)
            options = Options(0.0, 1, clients, rate=rate, calm_seconds=(3.0, 3.0))
            faults = [Fault("partition store", GATEWAY, seconds, way) for way in ways]
            happened = FaultRun(world, watch, options).suffer(faults)
            return Refused(
                watch.finish(), {each.fault.mode: _stalls(watch, each) for each in happened}
            )
        finally:
            for family in families:
                with suppress(OSError, ValueError):
                    family.close()


def _keep(world: World, gateways: int) -> None:
    """Drain the others."""
    for number in range(gateways + 1, ZONES + 1):
        world.drain_gateway(number)
        del world.gateways[number]


def _stalls(watch: Watch, happened: Happened) -> dict[str, tuple[int, int]]:
    return {
        each.name: (stall(each.acknowledged_at, happened), stall(each.consumed_at, happened))
        for each in watch.ledgers
    }


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="the object store refuses one gateway")
    parser.add_argument("--seconds", type=float, default=80.0)
    parser.add_argument("--gateways", type=int, default=2, choices=(2, 3))
    parser.add_argument("--clients", default=",".join(FAMILIES), help="by comma")
    parser.add_argument("--rate", type=int, default=60, help="records a second of each family")
    parser.add_argument("--most-seconds", type=float, default=5.0)
    given = parser.parse_args()
    say = partial(print, flush=True)
    clients = installed(given.clients.split(","), say)
    WORK.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=WORK, prefix="refused-") as made:
        folder = Path(made).absolute()
        found = refusals(
            folder,
            clients,
            say,
            seconds=given.seconds,
            gateways=given.gateways,
            rate=given.rate,
        )
    for way, stalls in found.stalls_ms.items():
        say(f"{way}: longest waits in ms (acknowledgement, record): {stalls}")
    say(f"acknowledged {found.judged.acknowledged}, failed {found.judged.failed}")
    say(f"{found.judged.records} records; {found.judged.verdict}; {found.judged.problems}")
    is_fast = found.longest_ms <= given.most_seconds * 1000
    return 0 if found.judged.is_clean and not found.failed and is_fast else 1


if __name__ == "__main__":
    sys.exit(main())
