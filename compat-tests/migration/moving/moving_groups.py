"""Consumer groups move from Apache Kafka to three gateways while their members read.

    compat-tests/run moving-groups --rounds 5

All clients use the gateways, which forward groups and writes to Kafka.  A round has a topic and a
link of its own.  Each family of clients has a group of one member, and a fourth group has members
that join at Kafka itself first.  Then the groups move to the gateways, one after another, and the
topic is switched.  With --hurt a gateway gets kill -9 or SIGSTOP meanwhile.

The exit status is 1 if a group got a record twice, other than after a refused commit, or not at
all.  Without --hurt it is also 1 if a member had to join again.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient
from faults.attendance import now_ms
from faults.clients import FAMILIES, Load, installed, start_families
from faults.stalls import longest_gap
from faults.watch import Say, Watch
from faults.world import World, running_world
from harness import kafka_cluster
from runner.options import option
from runner.result import Result, say
from runner.shared import FromKafka, Kept, Seeded

from migration.moving.figures import Figures
from migration.moving.source import PATIENCE_SECONDS, Source
from migration.moving.switch import CALM_SECONDS, SETTINGS, Options, SwitchRun
from migration.moving.three_members import GROUP, ThreeMembers

GROUPS: Final = "{}-group"
TRIES: Final = 10


@dataclass(slots=True)
class Moves:
    """The measurements of a run.

    stalls_ms: for each move, the longest gap between a reader's records, less the longest gap
    before the move.
    """

    moved: int = 0
    refused: list[str] = field(default_factory=list)
    joined_again: int = 0
    stalls_ms: list[int] = field(default_factory=list)


class MoveRun(SwitchRun):
    """The rounds."""

    def __init__(
        self, world: World, source: Source, options: Options, logs: Path, say: Say
    ) -> None:
        super().__init__(world, source, options, logs, say)
        self.moves = Moves()

    def run_all(self) -> None:
        """Do all of them."""
        for number in range(1, self._options.rounds + 1):
            self._round(f"move-{number}")

    def _round(self, topic: str) -> None:
        self._source.create(topic)
        self.link = f"link-{topic}"
        self._set_link(topic, "--groups", "*")
        self._await_copy(topic)
        load = Load(self._world.bootstrap, self._options.rate, topic)
        families = start_families(self._options.clients, load, self._logs / topic)
        watch = Watch(self._world, families, lambda text: None, topic=topic)
        members = ThreeMembers(self._source.bootstrap, self._world.bootstrap, topic)
        try:
            watch.wait_until_moving(now_ms())
            members.await_all()
            members.leave_source()
            watch.wait(CALM_SECONDS)
            for family in families:
                self._move(GROUPS.format(family.name), watch, family.ledger.joins, family.ledger)
            self._move(GROUP, watch, members.joins, members)
            begun_ms, ended_ms = self._switched(topic, watch)
            watch.wait_until_moving(ended_ms)
            watch.wait(CALM_SECONDS)
            self._measure(topic, watch.ledgers, begun_ms, ended_ms)
            self.figures.add(topic, watch.finish())
            self.figures.problems += members.finish(self._source.ends(topic, self._world.bootstrap))
        finally:
            members.close()
            for family in families:
                family.kill()
        self._forget_groups([GROUPS.format(each.name) for each in families])
        self._link("finish", self.link, topic, "--yes")
        self._link("remove", self.link, "--yes")

    def _set_link(self, topic: str, *words: str) -> None:
        servers = ("--bootstrap-servers", self._source.bootstrap)
        self._link("add", self.link, *servers, "--topics", topic, "--forward-writes", *words)

    def _move(self, group: str, watch: Watch, joins: int, reader: Any) -> None:
        """Move a group, and try again if the move is refused.  Its members continue."""
        for _ in range(TRIES):
            hurts = self._hurts_soon(group)
            begun_ms = now_ms()
            told = (self._link("move-groups", self.link, group, "--yes", may_fail=True) or [{}])[0]
            ended_ms = now_ms()
            self._settle(hurts)
            if told and not told["problem"]:
                break
            self.moves.refused.append(f"{group}: {told.get('problem', 'no answer')}")
            self._say(self.moves.refused[-1])
            watch.wait_until_moving(now_ms())
        else:
            raise RuntimeError(f"{group} was not moved in {TRIES} tries")
        watch.wait_until_moving(ended_ms)
        watch.wait(CALM_SECONDS)
        self.moves.moved += 1
        again = reader.joins - joins
        self.moves.joined_again += again
        stall = _stall_ms(reader, begun_ms, ended_ms)
        self.moves.stalls_ms.append(stall)
        self._say(f"{group}: {told}, readers waited {stall} ms, joined again {again} times")
        if again and not self._options.is_hurt:
            self.figures.problems.append(f"members of {group} joined again")
        if not told["offsets"]:
            self.figures.problems.append(f"{group} has no offsets")

    def _forget_groups(self, groups: Sequence[str]) -> None:
        """Delete the groups here, so that the source coordinates them in the next round again."""
        admin = AdminClient({"bootstrap.servers": self._world.bootstrap, "log_level": 0})
        for done in admin.delete_consumer_groups([*groups, GROUP]).values():
            done.result(PATIENCE_SECONDS)


def _stall_ms(reader: Any, begun_ms: int, ended_ms: int) -> int:
    stalls = [0]
    for times in reader.consumed_at.values():
        usual = longest_gap(times, begun_ms - int(CALM_SECONDS * 1000), begun_ms)
        gap = longest_gap(times, begun_ms, ended_ms + int(CALM_SECONDS * 1000))
        stalls.append(max(gap - usual, 0))
    return max(stalls)


@dataclass(frozen=True)
class GroupOptions(Seeded, Kept, FromKafka):
    """The options."""

    rounds: int = 5
    clients: Sequence[str] = option(tuple(FAMILIES), "by comma", choices=FAMILIES)
    rate: int = option(100, "records a second of each family")
    is_hurt: bool = option(False, "kill -9 and SIGSTOP of gateways", flag="--hurt")


def main(given: GroupOptions) -> Result:
    """Run it."""
    options = Options(
        rounds=given.rounds,
        seed=given.seed,
        clients=installed(given.clients, say),
        rate=given.rate,
        is_hurt=given.is_hurt,
    )
    with (
        given.work_folder("groups") as folder,
        kafka_cluster.running(given.brokers, version=given.kafka) as kafka,
        running_world(folder, more=SETTINGS) as world,
    ):
        run = MoveRun(world, Source(kafka), options, folder / "logs", say)
        run.run_all()
    return Result(run.figures.is_clean, _text(run.figures, run.moves), run.figures)


def _text(figures: Figures, moves: Moves) -> str:
    stalls = sorted(moves.stalls_ms)
    return "\n".join(
        [
            f"{moves.moved} groups moved, {len(moves.refused)} tries refused,"
            f" {figures.hurts} hurts",
            f"members joined again {moves.joined_again} times",
            f"readers waited p50 {int(statistics.median(stalls))} ms, at most {stalls[-1]} ms",
            f"{figures.acknowledged} acknowledged, {figures.failed} failed; {figures.verdict}",
            *(figures.problems or ["promises kept"]),
        ]
    )
