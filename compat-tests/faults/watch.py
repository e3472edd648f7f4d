"""Waits for clients under load and faults, and judges their records at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from crash.ledger import Verdict

from faults.attendance import Attendance, Say, now_ms, since
from faults.clients import PARTITIONS, TOPIC, Family, sweep
from faults.ledger import FamilyLedger, Repeats, judge_all
from faults.world import World

__all__ = ["Judged", "Say", "Watch", "now_ms"]


@dataclass(slots=True)
class Judged:
    """The counts of all clients, and the errors found.

    records: how many the topic has.  repeats: those of producers without idempotence, which are no
    errors.
    """

    acknowledged: dict[str, int] = field(default_factory=dict)
    consumed: dict[str, int] = field(default_factory=dict)
    commits: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    records: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    repeats: Repeats = field(default_factory=Repeats)
    problems: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return self.verdict.is_clean and not self.problems


class Watch(Attendance):
    """The clients of a run, which all use one topic."""

    def __init__(
        self, world: World, families: list[Family[FamilyLedger]], say: Say, *, topic: str = TOPIC
    ) -> None:
        super().__init__(world, say)
        self.families = families
        self._topic = topic
        self.ledgers: Sequence[FamilyLedger] = [each.ledger for each in families]

    def counts(self) -> str:
        """See Attendance."""
        return ", ".join(
            f"{each.name} {each.producer.count} acknowledged {each.consumed} consumed"
            for each in self.ledgers
        )

    def stuck(self, since_ms: int) -> list[str]:
        """See Attendance."""
        found: list[str] = []
        for each in self.ledgers:
            for what in ("acknowledged_at", "consumed_at"):
                times = getattr(each, what)
                where = [p for p in range(PARTITIONS) if not since(times.get(p), since_ms)]
                found += [f"{each.name} {what} {where}"] if where else []
        return found

    def check_clients(self) -> None:
        """See Attendance."""
        for family in self.families:
            family.check()

    def finish(self) -> Judged:
        """End the clients, read all records and judge."""
        for family in self.families:
            family.tell("flush")
        self.wait_for(self._all_done, "some records had no answer")
        found = sweep(self._world.bootstrap, self._topic)
        ends = {partition: len(records) for partition, records in found.items()}
        ledgers, repeats = self.ledgers, Repeats()
        self.wait_for(lambda: not any(each.behind(ends) for each in ledgers), "a group is behind")
        for family in self.families:
            family.close()
            family.ledger.compare_content(found)
            self.problems += family.ledger.problems
        return Judged(
            acknowledged={each.name: each.producer.count for each in ledgers},
            consumed={each.name: each.consumed for each in ledgers},
            commits={each.name: each.commits for each in ledgers},
            failed={each.name: len(each.producer.failed) for each in ledgers},
            records=sum(ends.values()),
            verdict=judge_all(ledgers, found, repeats),
            repeats=repeats,
            problems=self.problems,
        )

    def _all_done(self) -> bool:
        return all(each.is_done for each in self.ledgers)
