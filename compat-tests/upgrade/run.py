"""A rolling upgrade from an older release under load, and over the new metadata.version.

    compat-tests/run upgrade --from COMMIT

Three gateways and a driver of the pipeline, each with its own virtual environment, run the wheel of
an older commit.  They serve an idempotent producer and a group of each family of clients, and
transactional clients.  The program runs the commands of docs/operations/upgrade.md as an
administrator would.  One by one, all processes go to the wheel of this tree, back, and to this
tree's again.  On the way a raise of metadata.version comes too early, and must be refused.  Then
the version is raised, all start again, and the older release must be refused with a sentence.  At
the end every record is read and compared, and no application may have seen an error.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from faults.clients import FAMILIES, Load, create_topic, installed, start_families
from faults.driver import Driver
from faults.watch import Judged, Say, Watch
from faults.world import running_world
from harness.places import WORK
from histories.clients import FAMILIES as HISTORY_FAMILIES
from histories.report import summary
from histories.watch import Judged as HistoryJudged
from runner.options import option
from runner.result import Result, say
from runner.shared import Kept

from upgrade.administrator import Administrator
from upgrade.judging import errors_seen
from upgrade.releases import newer_release, older_release
from upgrade.rolling import HOSTS, ORDERS, PIPELINE, Releases, Upgrade
from upgrade.transactions import Transactions


@dataclass(frozen=True)
class Options(Kept):
    """The options."""

    older: str = option(says="a commit of this repository", flag="--from")
    order: str = option("gateways-first", choices=ORDERS)
    clients: Sequence[str] = option(tuple(FAMILIES), "by comma", choices=FAMILIES)
    transactions: Sequence[str] = option(
        tuple(HISTORY_FAMILIES), "by comma", choices=HISTORY_FAMILIES
    )
    rate: int = option(150, "records a second of each family")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The counts of the clients of faults/ and histories/.  errors: those that applications saw."""

    plain: Judged
    transactions: HistoryJudged
    errors: Counter[str]

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept, and no application saw an error."""
        return self.plain.is_clean and self.transactions.is_clean and not self.errors


def upgrade_run(options: Options, releases: Releases, folder: Path, say: Say) -> Outcome:
    """Run it in an empty folder; its logs stay there."""
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


def main(options: Options) -> Result:
    """Run it."""
    options = replace(
        options,
        clients=installed(options.clients, say),
        transactions=installed(options.transactions, say, HISTORY_FAMILIES),
    )
    # With PYTHONPATH the wheels' environments would import packages of this tree.
    os.environ.pop("PYTHONPATH", None)
    WORK.mkdir(exist_ok=True)
    releases = Releases(older_release(options.older), newer_release())
    say(f"from {releases.older.wheel} to {releases.newer.wheel}")
    with options.work_folder("upgrade") as folder:
        outcome = upgrade_run(options, releases, folder, say)
    return Result(outcome.is_clean, _text(outcome), outcome)
