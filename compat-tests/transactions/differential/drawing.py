"""Draws scripts: steps are mostly legal for clients, and each may be wrong by chance.

The drawer keeps a rough state of each producer, so that most transactions reach their end.  It is
no model of a broker: the answers of Apache Kafka are the right ones.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from . import steps as st

MIN_STEPS: Final = 8
MAX_STEPS: Final = 22
_SHARES_NAME: Final = 0.3
_OTHER_FLAVOUR: Final = 0.12
_WRONG: Final = 0.12
_FETCH_VERSIONS: Final = (4, 11, 12, 12, 12, 13, 16)
_MARKS: Final = 0.15
"""Only the last step: Kafka and a gateway differ afterwards."""
_LAST_EPOCH: Final = 32_766
_SHORT_TIMEOUT_MS: Final = 1_500


@dataclass(slots=True)
class _Producer:
    """The state of a producer, as the drawer guesses it."""

    flavour: int
    added: set[st.Place] = field(default_factory=set)
    groups: set[int] = field(default_factory=set)


class _Drawer:
    def __init__(self, seed: int, number: int) -> None:
        self.rng: Final = Random(f"{seed} {number}")
        self.steps: Final[list[st.Step]] = []
        self.producers: Final = [_Producer(self.rng.choice((1, 2))) for _ in range(2)]
        self.shares_name: Final = self.rng.random() < _SHARES_NAME
        self.gone: Final[set[int]] = set()

    def script(self, number: int, *, is_worn: bool) -> st.Script:
        """Return a script."""
        worn_to = _LAST_EPOCH - self.rng.choice((0, 0, 1, 2)) if is_worn else -1
        for producer in range(1 if is_worn else 0, 2):
            if self.rng.random() < 0.99:
                self._initialise(producer, is_plain=True)
        count = len(self.steps) + self.rng.randint(MIN_STEPS, MAX_STEPS)
        kinds = list(_KINDS)
        weights = list(_KINDS.values())
        if is_worn:
            kinds += [_Drawer.end, _Drawer.initialise]
            weights += [25, 10]
        while len(self.steps) < count:
            [kind] = self.rng.choices(kinds, weights)
            kind(self)
        if self.rng.random() < _MARKS:
            self.mark()
        peeks = tuple(self.rng.randrange(101) for _ in self.steps)
        version = self.rng.choice(_FETCH_VERSIONS)
        steps = tuple(self.steps)
        return st.Script(number, self.shares_name, steps, peeks, version, worn_to)

    # -- small choices ---------------------------------------------------------------------------

    def is_wrong(self) -> bool:
        return self.rng.random() < _WRONG

    def producer(self) -> int:
        return self.rng.randrange(2)

    def is_v2(self, producer: int) -> bool:
        is_other = self.rng.random() < _OTHER_FLAVOUR
        return (self.producers[producer].flavour == 2) is not is_other

    def who(self, producer: int) -> st.Who:
        if not self.is_wrong():
            return st.Who(producer)
        kind = self.rng.randrange(8)
        if kind < 4:
            return st.Who(producer, epoch=self.rng.choice((-1, -1, -2, 1)))
        if kind < 6:
            return st.Who(producer, id=self.rng.choice(("other", "unknown", "none")))
        return st.Who(producer, name=self.rng.choice(("other", "unknown", "empty")))

    def place(self) -> st.Place:
        if self.is_wrong() and self.rng.random() < 0.4:
            return self.rng.choice(
                ((0, st.UNKNOWN_PARTITION), (st.UNKNOWN_TOPIC, 0), (st.UNKNOWN_TOPIC, 1))
            )
        return self.rng.choice(((0, 0), (0, 0), (0, 0), (0, 1), (1, 0)))

    def places(self) -> tuple[st.Place, ...]:
        count = self.rng.choice((1, 1, 1, 2, 3))
        return tuple(dict.fromkeys(self.place() for _ in range(count)))

    def group(self) -> int:
        return self.rng.choice((0, 0, 1))

    def member(self) -> st.Member:
        if self.rng.random() < 0.5:
            return st.Member()
        if not self.is_wrong():
            return st.Member("own")
        return st.Member(self.rng.choice(("stale", "unknown", "instance", "bare")))

    # -- steps -----------------------------------------------------------------------------------

    def _initialise(self, producer: int, *, is_plain: bool = False) -> None:
        state = self.producers[producer]
        version = 5 if self.is_v2(producer) else self.rng.randrange(5)
        who = st.Who(producer) if is_plain else self.who(producer)
        keeps = version >= 3 and not is_plain and self.rng.random() < 0.5
        timeout_ms = 120_000
        if not is_plain and self.is_wrong():
            timeout_ms = self.rng.choice((0, -1, 900_001, 900_000))
        self.steps.append(st.Initialise(version, who, keeps, timeout_ms))
        state.added.clear()
        state.groups.clear()

    def initialise(self) -> None:
        self._initialise(self.producer())

    def initialise_idempotent(self) -> None:
        self.steps.append(st.Initialise(self.rng.randrange(6), st.Who(st.IDEMPOTENT)))

    def add_partitions(self) -> None:
        producer = self.producer()
        self._add(producer, self.places())

    def _add(self, producer: int, places: tuple[st.Place, ...]) -> None:
        self.steps.append(st.AddPartitions(self.rng.randrange(4), self.who(producer), places))
        self.producers[producer].added.update(places)

    def verify(self) -> None:
        who = self.who(self.producer())
        verifies = self.rng.random() < 0.7
        self.steps.append(st.AddPartitions(self.rng.choice((4, 5)), who, self.places(), verifies))

    def write(self) -> None:
        producer = self.producer()
        is_v2 = self.is_v2(producer)
        places = self.places()
        absent = tuple(each for each in places if each not in self.producers[producer].added)
        if not is_v2 and absent and self.rng.random() < 0.85:
            self._add(producer, absent)
        version = self.rng.choice((12, 13)) if is_v2 else self.rng.randint(3, 11)
        if is_v2:
            self.producers[producer].added.update(places)
        who = self.who(producer)
        batches = tuple(self._batch(each, who) for each in places)
        has_name = self.rng.random() < 0.97
        acks = self.rng.choice((-1, -1, -1, 1))
        self.steps.append(st.Write(version, who, batches, has_name, acks))

    def _batch(self, place: st.Place, who: st.Who) -> st.Batch:
        sequence: st.Sequence = "next"
        if self.is_wrong() and self.rng.random() < 0.7:
            sequence = self.rng.choice(("last", "last", "gap", "zero"))
        # After a batch of a later epoch outside of a transaction, Kafka cannot write its markers to
        # the partition.
        is_transactional = who.epoch > 0 or self.rng.random() < 0.96
        return st.Batch(place, self.rng.choice((1, 1, 2, 3)), sequence, is_transactional)

    def write_idempotent(self) -> None:
        who = st.Who(st.IDEMPOTENT, epoch=self.rng.choice((0, 0, 0, 0, 1)))
        is_transactional = self.rng.random() < 0.1
        batch = st.Batch(self.place(), self.rng.choice((1, 2)), is_transactional=is_transactional)
        self.steps.append(st.Write(self.rng.randint(3, 13), who, (batch,), has_name=False))

    def stage(self) -> None:
        producer, group = self.producer(), self.group()
        is_v2 = self.is_v2(producer)
        state = self.producers[producer]
        if not is_v2 and group not in state.groups and self.rng.random() < 0.85:
            self._add_offsets(producer, group)
        version = 5 if is_v2 else self.rng.randrange(5)
        metadata_bytes = 5_000 if self.is_wrong() and self.rng.random() < 0.3 else 3
        self.steps.append(
            st.StageOffsets(
                version,
                self.who(producer),
                group,
                self.places(),
                self.rng.randrange(100),
                self.member(),
                metadata_bytes,
            )
        )

    def add_offsets(self) -> None:
        self._add_offsets(self.producer(), self.group())

    def _add_offsets(self, producer: int, group: int) -> None:
        self.steps.append(st.AddOffsets(self.rng.randrange(5), self.who(producer), group))
        self.producers[producer].groups.add(group)

    def end(self) -> None:
        producer = self.producer()
        version = 5 if self.is_v2(producer) else self.rng.randrange(5)
        self.steps.append(st.End(version, self.who(producer), self.rng.random() < 0.55))
        self.producers[producer].added.clear()
        self.producers[producer].groups.clear()

    def commit(self) -> None:
        version = self.rng.randint(2, 10)
        self.steps.append(
            st.CommitOffsets(
                version, self.group(), self.places(), self.rng.randrange(100), self.member()
            )
        )

    def delete_offsets(self) -> None:
        self.steps.append(st.DeleteOffsets(self.group(), self.places()))

    def delete_group(self) -> None:
        self.steps.append(st.DeleteGroup(self.group()))

    def join(self) -> None:
        is_static = self.rng.random() < 0.4
        self.steps.append(st.Join(self.group(), is_static, self.rng.random() < 0.8))

    def leave(self) -> None:
        self.steps.append(st.Leave(self.group()))

    def delete_records(self) -> None:
        hundredths = self.rng.choice((None, 30, 60, 100, 120))
        self.steps.append(st.DeleteRecords(self.place(), hundredths))

    def delete_topic(self) -> None:
        topic = self.rng.randrange(st.TOPICS)
        if topic not in self.gone:
            self.steps.append(st.DeleteTopic(topic))
            self.gone.add(topic)

    def create_topic(self) -> None:
        for topic in sorted(self.gone):
            self.steps.append(st.CreateTopic(topic))
        self.gone.clear()

    def repeat(self) -> None:
        if self.steps:
            back = min(len(self.steps), self.rng.choice((1, 1, 1, 2, 3, 5)))
            # A repeated JoinGroup is another member, and waits for the first one.  An epoch that is
            # too high now may become the present one later on one broker alone.
            again = self.steps[-back]
            who = getattr(again, "who", st.Who(0))
            if not isinstance(again, st.Join) and who.epoch <= 0:
                self.steps.append(st.Repeat(len(self.steps) - back))

    def list_all(self) -> None:
        states = self.rng.choice(((), ("Ongoing",), ("Empty", "CompleteCommit"), ("Strange",)))
        pattern = self.rng.choice((None, None, ".*", "-x", "-[xy", "x"))
        of_producer = self.rng.choice((None, None, 0, 1))
        duration_ms = self.rng.choice((-1, -1, 0, 3_600_000))
        version = self.rng.randrange(3)
        if version < 1:
            duration_ms = -1
        if version < 2:
            pattern = None
        self.steps.append(st.ListAll(version, states, of_producer, pattern, duration_ms))

    def mark(self) -> None:
        who = self.who(self.producer())
        commits = self.rng.random() < 0.15
        self.steps.append(st.Mark(self.rng.choice((1, 2)), who, self.place(), commits))

    def time_out(self) -> None:
        """Let a transaction time out, and let its producer continue."""
        producer = self.producer()
        place = (0, self.rng.randrange(2))
        version = self.rng.choice((3, 4, 5, 5))
        is_v2 = self.is_v2(producer)
        self.steps.append(st.Initialise(version, st.Who(producer), timeout_ms=_SHORT_TIMEOUT_MS))
        if not is_v2:
            self.steps.append(st.AddPartitions(3, st.Who(producer), (place,)))
        written = st.Write(12 if is_v2 else 11, st.Who(producer), (st.Batch(place),))
        if is_v2 or self.rng.random() < 0.8:
            self.steps.append(written)
        self.steps.append(st.TimeOut(producer))
        for _ in range(self.rng.randint(1, 3)):
            self.steps.append(
                self.rng.choice(
                    (
                        written,
                        st.End(5 if is_v2 else 3, st.Who(producer), self.rng.random() < 0.4),
                        st.Initialise(version, st.Who(producer), version >= 3, 120_000),
                    )
                )
            )
        self._initialise(producer, is_plain=True)


_KINDS: Final[dict[Callable[[_Drawer], None], float]] = {
    _Drawer.write: 34,
    _Drawer.end: 20,
    _Drawer.stage: 10,
    _Drawer.repeat: 8,
    _Drawer.initialise: 5,
    _Drawer.add_partitions: 4,
    _Drawer.delete_records: 4,
    _Drawer.commit: 3,
    _Drawer.join: 3,
    _Drawer.write_idempotent: 3,
    _Drawer.initialise_idempotent: 1,
    _Drawer.add_offsets: 2,
    _Drawer.verify: 2,
    _Drawer.list_all: 2,
    _Drawer.leave: 1.5,
    _Drawer.delete_topic: 1.5,
    _Drawer.create_topic: 5,
    _Drawer.delete_offsets: 1,
    _Drawer.delete_group: 1,
    _Drawer.time_out: 0.4,
}


def draw(seed: int, number: int, *, is_worn: bool = False) -> st.Script:
    """Return the script of a seed and a number.

    is_worn: its first producer id is near its last epoch.
    """
    return _Drawer(seed, number).script(number, is_worn=is_worn)
