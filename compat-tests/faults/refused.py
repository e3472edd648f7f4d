"""The object store refuses one gateway, while all others write.

    compat-tests/run refused --seconds 80

Idempotent producers write while the store refuses in two ways, each for --seconds.  First it
answers 403 for a wrong clock, then it accepts no connection.  The program prints for each family of
clients the longest time that a partition had no acknowledgement, and no record.  The exit status is
1 if a record failed, was lost or doubled, or if an acknowledgement took longer than --most-seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.options import option
from runner.result import Result, say
from runner.shared import Kept

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
    """A finished run.

    stalls_ms: by way of refusing and family, of acknowledgements and of records.
    """

    judged: Judged
    stalls_ms: dict[Mode, dict[str, tuple[int, int]]]

    @property
    def failed(self) -> int:
        """The number of records that failed for good."""
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
    """Run it in an empty folder; its logs stay there."""
    with running_world(folder) as world:
        _keep(world, gateways)
        create_topic(world.bootstrap)
        families = start_families(clients, Load(world.bootstrap, rate), folder / "logs")
        try:
            watch = Watch(world, families, say)
            options = Options(minutes=0.0, clients=clients, rate=rate, calm_seconds=(3.0, 3.0))
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
    """Drain all gateways above `gateways`."""
    for number in range(gateways + 1, ZONES + 1):
        world.drain_gateway(number)
        del world.gateways[number]


def _stalls(watch: Watch, happened: Happened) -> dict[str, tuple[int, int]]:
    return {
        each.name: (stall(each.acknowledged_at, happened), stall(each.consumed_at, happened))
        for each in watch.ledgers
    }


@dataclass(frozen=True)
class RefusedOptions:
    """The options."""

    seconds: float = 80.0
    gateways: int = option(2, choices=(2, 3))
    clients: Sequence[str] = option(tuple(FAMILIES), "by comma", choices=FAMILIES)
    rate: int = option(60, "records a second of each family")
    most_seconds: float = option(5.0, "of a stall")


def main(options: RefusedOptions) -> Result:
    """Run it."""
    clients = installed(options.clients, say)
    with Kept().work_folder("refused") as folder:
        found = refusals(
            folder,
            clients,
            say,
            seconds=options.seconds,
            gateways=options.gateways,
            rate=options.rate,
        )
    judged = found.judged
    lines = [
        f"{way}: longest waits in ms (acknowledgement, record): {stalls}"
        for way, stalls in found.stalls_ms.items()
    ]
    lines.append(f"acknowledged {judged.acknowledged}, failed {judged.failed}")
    lines.append(f"{judged.records} records; {judged.verdict}; {judged.problems}")
    is_fast = found.longest_ms <= options.most_seconds * 1000
    return Result(judged.is_clean and not found.failed and is_fast, "\n".join(lines))
