"""A rolling upgrade from an older release under load, and over the new metadata.version.

    PYTHONPATH=compat-tests .venv/bin/python compat-tests/upgrade/run.py --from COMMIT

Three gateways and a driver of the pipeline, each with an environment of its own, run the wheel of
an older commit and serve an idempotent producer and a group of each family of clients, and
transactional ones.  An administrator follows docs/operations/upgrade.md, whose commands are run as
they stand there: one by one all go to the wheel of this tree, back, and to this tree's again.  On
the way he raises metadata.version too early and is refused.  Then it is raised, all start anew, and
the older release must be refused with a sentence.  Every record is read and compared at the end,
and no application may have seen an error.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from faults.clients import FAMILIES, Load, create_topic, installed, start_families
from faults.driver import Driver
from faults.watch import Judged, Say, Watch
from faults.world import running_world
from harness.places import WORK
from histories.clients import FAMILIES as HISTORY_FAMILIES
from histories.report import summary
from histories.watch import Judged as HistoryJudged

from upgrade.administrator import Administrator
from upgrade.judging import errors_seen
from upgrade.releases import newer_release, older_release
from upgrade.rolling import HOSTS, ORDERS, PIPELINE, Releases, Upgrade
from upgrade.transactions import Transactions


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
    """What the clients of faults/ and those of histories/ did.

    errors: that applications saw.
    """

    plain: Judged
    transactions: HistoryJudged
    errors: Counter[str]

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept, and no application saw an error."""
        return self.plain.is_clean and self.transactions.is_clean and not self.errors


def upgrade_run(options: Options, releases: Releases, folder: Path, say: Say) -> Outcome:
    """Run it in a folder that is empty; what was logged stays there."""
    administrator = Administrator(folder / "logs" / "administrator.log")
    for host in (*HOSTS.values(), PIPELINE):
        administrator.install(host, releases.older)
    pythons = {number: host.python for number, host in HOSTS.items()}
    with running_world(folder, pythons) as world:
        create_topic(world.bootstrap)
        driver = Driver(world, folder / "logs" / "driver.log")
        families = start_families(
            options.clients, Load(world.bootstrap, options.rate), folder / "logs"
        )
        transactions = Transactions(world, options.transactions, driver, folder / "logs", say)
        try:
            driver.start(PIPELINE.python)
            watch = Watch(world, families, say)
            administrator.world = world
            made = Upgrade(world, watch, transactions, driver, administrator, releases)
            made.run(options.order)
            plain, transacted = watch.finish(), transactions.finish()
            told = [f"{each.name}: {error.error}" for each in watch.ledgers for error in each.told]
            return Outcome(plain, transacted, errors_seen(told, transacted))
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
    seen = ", ".join(f"{count} {text}" for text, count in outcome.errors.most_common())
    lines.append(f"errors that applications saw: {seen or 'none'}")
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
    os.environ.pop("PYTHONPATH", None)  # the wheels' environments are to be their own
    WORK.mkdir(exist_ok=True)
    releases = Releases(older_release(given.older), newer_release())
    say(f"from {releases.older.wheel} to {releases.newer.wheel}")
    with TemporaryDirectory(dir=WORK, prefix="upgrade-") as made:
        outcome = upgrade_run(options, releases, (given.folder or Path(made)).absolute(), say)
    print(msgspec.json.encode(outcome).decode() if given.json else _text(outcome))
    return 0 if outcome.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
