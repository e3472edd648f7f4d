"""A rolling upgrade from an older release under load, and over the new metadata.version.

    PYTHONPATH=compat-tests .venv/bin/python compat-tests/upgrade/run.py --from COMMIT

Three gateways of the older release and a driver of the pipeline serve an idempotent producer and a
group of each family of clients.  They are replaced one by one: first the gateways or first the
driver.  On the way one gateway goes back to the older release, and an operator who raises
metadata.version too early is refused.  Then it is raised, all start anew, and the older release
must be refused with a sentence.  Every record is read and compared at the end.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
from kafka.admin import KafkaAdminClient

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from faults.attendance import Attendance
from faults.clients import FAMILIES, Load, create_topic, installed, start_families
from faults.driver import Driver
from faults.watch import Judged, Say, Watch, now_ms
from faults.world import World, running_world
from harness.places import WORK
from harness.process import spawn, tail
from histories.clients import FAMILIES as HISTORY_FAMILIES
from histories.report import summary
from histories.watch import Judged as HistoryJudged

from upgrade.older import older_release
from upgrade.transactions import Transactions

FEATURE: Final = "tidegate.metadata.version"
NEWER: Final = Path(sys.executable)
DRIVER: Final = "driver"
ORDERS: Final[dict[str, Sequence[int | str]]] = {
    "gateways-first": (1, 2, 3, DRIVER),
    "driver-first": (DRIVER, 3, 2, 1),
}
CALM_SECONDS = 3.0
REFUSED_SECONDS = 60.0
# A gateway that stopped in order is forgotten at once, a driver after its lease of 30 s.
RAISE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    """The options.

    order: one of ORDERS.  transactions: families of histories/.  rate: records a second of each
    family of faults/.
    """

    order: str
    clients: Sequence[str]
    transactions: Sequence[str] = ()
    rate: int = 150


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the clients of faults/ and those of histories/ did."""

    plain: Judged
    transactions: HistoryJudged

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return self.plain.is_clean and self.transactions.is_clean


class Upgrade:
    """One roll over a world under load."""

    def __init__(
        self,
        world: World,
        watch: Watch,
        transactions: Transactions,
        driver: Driver,
        older: Path,
    ) -> None:
        self._world = world
        self._watch = watch
        self._transactions = transactions
        self._driver = driver
        self._older = older

    def run(self, order: str) -> None:
        """Do all of it; what is not as promised becomes a problem of the watch."""
        before, _ = self._levels()
        self._transactions.begin(before)
        self._calm("all of the older release")
        for step, what in enumerate(ORDERS[order]):
            self._replace(what, NEWER)
            if step == 1:
                self._check_early_raise(before)
            if what == 2:
                self._replace(2, self._older)
                self._replace(2, NEWER)
        if self._levels()[1] > before:
            self._raise(before)
        for what in ORDERS[order]:
            self._replace(what, NEWER)
        if self._levels()[0] > before:
            self._check_no_way_back()

    def _replace(self, what: int | str, python: Path) -> None:
        """Stop one in order, and start it as a release; then all must go on."""
        release = "newer" if python == NEWER else "older"
        if isinstance(what, int):
            self._drain(what)
            self._world.gateways[what].python = python
            self._world.start_gateway(what)
        else:
            self._driver.stop()
            self._driver.start(python)
        self._calm(f"{what} is of the {release} release")

    def _drain(self, number: int) -> None:
        code = self._world.drain_gateway(number)
        if code:
            self._watch.problems.append(f"gateway {number} drained with exit code {code}")

    def _calm(self, after: str) -> None:
        since_ms = now_ms()
        watches: list[Attendance] = [self._watch]
        watches += [self._transactions.watch] if self._transactions.watch is not None else []
        for each in watches:
            each.wait_until_moving(since_ms)
        self._watch.wait(CALM_SECONDS)
        self._driver.check()
        counts = "; ".join(each.counts() for each in watches)
        self._watch.say(f"{after}; {counts}")

    def _levels(self) -> tuple[int, int]:
        """Return the version that is on, and the highest that the asked gateway reads."""
        admin = KafkaAdminClient(bootstrap_servers=self._world.bootstrap.split(","))
        try:
            told = admin.describe_features()[FEATURE]
        finally:
            admin.close()
        return told["finalized"][1], told["supported"][1]

    def _set_level(self, level: int) -> str:
        """Return "" when it is on, else why not."""
        admin = KafkaAdminClient(bootstrap_servers=self._world.bootstrap.split(","))
        try:
            answer = str(admin.update_features({FEATURE: level})[FEATURE])
        except Exception as error:
            return str(error)
        finally:
            admin.close()
        return "" if answer == "OK" else answer

    def _check_early_raise(self, before: int) -> None:
        refusal = self._set_level(before + 1)
        self._watch.say(f"raised too early: {refusal or 'NOT REFUSED'}")
        if not refusal:
            self._watch.problems.append("metadata.version was raised while an older release lived")

    def _raise(self, before: int) -> None:
        """As an operator does: again until those that stopped are forgotten."""
        on, newest = self._levels()
        if on != before:
            raise RuntimeError(f"{FEATURE} is {on}, was {before}, and {newest} is the newest known")
        deadline = time.monotonic() + RAISE_SECONDS
        while refusal := self._set_level(newest):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{FEATURE} {newest} was refused: {refusal}")
            self._watch.wait(1.0)
        self._transactions.begin(newest)
        self._calm(f"{FEATURE} is {self._levels()[0]}, was {before}")

    def _check_no_way_back(self) -> None:
        """The older release ends by itself, with a sentence, and harms nothing."""
        self._drain(3)
        gateway = self._world.gateways[3]
        settings = gateway.folder / "server.properties"
        command = [str(self._older), "-m", "tidegate_gateway", "serve"]
        command += ["--properties", str(settings), "--data", str(gateway.folder)]
        log = gateway.log.with_name("way-back.log")
        process = spawn(command, log)
        deadline = time.monotonic() + REFUSED_SECONDS
        while process.popen.poll() is None and time.monotonic() < deadline:
            self._watch.wait(0.2)
        code = process.popen.poll()
        process.kill()
        self._watch.say(f"the older release, exit code {code}: {tail(log, 400).strip()}")
        if not code or "metadata.version" not in tail(log):
            self._watch.problems.append(f"the older release was not refused: {tail(log)}")
        self._world.start_gateway(3)
        self._calm("the newer release is back")


def upgrade_run(options: Options, older: Path, folder: Path, say: Say) -> Outcome:
    """Run it in a folder that is empty; what was logged stays there."""
    with running_world(folder, older) as world:
        create_topic(world.bootstrap)
        driver = Driver(world, folder / "logs" / "driver.log")
        families = start_families(
            options.clients, Load(world.bootstrap, options.rate), folder / "logs"
        )
        transactions = Transactions(world, options.transactions, driver, folder / "logs", say)
        try:
            driver.start(older)
            watch = Watch(world, families, say)
            Upgrade(world, watch, transactions, driver, older).run(options.order)
            return Outcome(watch.finish(), transactions.finish())
        finally:
            transactions.close()
            driver.stop()
            for family in families:
                with suppress(OSError, ValueError):
                    family.close()


def _text(outcome: Outcome) -> str:
    judged = outcome.plain
    verdict = judged.verdict
    words = "kept" if judged.is_clean else "BROKEN"
    lines = [
        f"{name}: {count} acknowledged, {judged.failed[name]} failed, {judged.consumed[name]} read"
        for name, count in judged.acknowledged.items()
    ]
    total = (
        f"{judged.records} records: {verdict.lost} lost, {verdict.duplicates} twice,"
        f" {verdict.misplaced} misplaced, {verdict.out_of_order} out of order; promises {words}"
    )
    lines += [total, *verdict.examples, *judged.problems, *summary(outcome.transactions)]
    return "\n".join(lines)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="a rolling upgrade under load")
    parser.add_argument("--from", dest="older", required=True, help="a commit of this repository")
    parser.add_argument("--order", choices=ORDERS, default="gateways-first")
    parser.add_argument("--clients", default=",".join(FAMILIES), help="by comma")
    parser.add_argument("--transactions", default=",".join(HISTORY_FAMILIES), help="by comma")
    parser.add_argument("--rate", type=int, default=150, help="records a second of each family")
    parser.add_argument("--folder", type=Path, help="where logs and data stay (an empty one)")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    given = parser.parse_args()
    say = partial(print, flush=True, file=sys.stderr if given.json else sys.stdout)
    options = Options(
        given.order,
        installed(given.clients.split(","), say),
        installed(given.transactions.split(","), say, HISTORY_FAMILIES),
        given.rate,
    )
    older = older_release(given.older)
    WORK.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=WORK, prefix="upgrade-") as made:
        outcome = upgrade_run(options, older, (given.folder or Path(made)).absolute(), say)
    print(msgspec.json.encode(outcome).decode() if given.json else _text(outcome))
    return 0 if outcome.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
