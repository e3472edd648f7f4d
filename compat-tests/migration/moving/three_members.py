"""Members of one group: one joins at Apache Kafka, three at gateways; then the first one leaves."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from faults.attendance import now_ms
from faults.clients import PARTITIONS

GROUP: Final = "three-members"
MEMBERS: Final = 3
COMMIT_SECONDS: Final = 0.2
PATIENCE_SECONDS: Final = 90.0
_MUST_JOIN: Final = (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION)


class _Member:
    """A consumer in a thread of its own."""

    def __init__(self, owner: ThreeMembers, bootstrap: str, topic: str) -> None:
        self.assigned: set[int] = set()
        self._owner = owner
        self._topic = topic
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                "error_cb": lambda _: None,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)
        self._positions: dict[int, int] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _on_assign(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self.assigned = {each.partition for each in partitions}
        self._owner.note_join()

    def _on_revoke(self, consumer: Consumer, _: Sequence[TopicPartition]) -> None:
        self._commit(consumer)
        self.assigned = set()
        self._positions.clear()

    def _commit(self, consumer: Consumer) -> None:
        """Commit, and repeat the commit if it fails.

        Else the member could get records again that it got before.
        """
        places = [TopicPartition(self._topic, *each) for each in self._positions.items()]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while places and time.monotonic() < deadline:
            try:
                consumer.commit(offsets=places, asynchronous=False)
                return
            except KafkaException as error:
                self._owner.note_error(str(error))
                if error.args[0].code() in _MUST_JOIN:
                    # Only poll() joins the group again.  Until then each commit is refused.
                    self._owner.note_refused(self._positions)
                    return
                time.sleep(COMMIT_SECONDS)

    def _run(self) -> None:
        commit_at = 0.0
        while not self._stop.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                self._owner.note(partition, offset)
                self._positions[partition] = offset + 1
            if time.monotonic() > commit_at:
                self._commit(self._consumer)
                commit_at = time.monotonic() + COMMIT_SECONDS
        self._consumer.close()

    def stop(self) -> None:
        """Leave the group."""
        self._stop.set()
        self._thread.join(PATIENCE_SECONDS)


class ThreeMembers:
    """See the module's head.

    repeated: records that came twice after a refused commit.  joins: how often a member got
    partitions.  consumed_at: by partition, when its records were consumed, in ms, rising.
    """

    def __init__(self, source: str, gateways: str, topic: str) -> None:
        self.joins = 0
        self.consumed_at: dict[int, list[int]] = defaultdict(list)
        self.errors: list[str] = []
        self._lock = threading.Lock()
        self._next: dict[int, int] = {}
        self._may_repeat: set[int] = set()
        self.repeated = 0
        self._problems: list[str] = []
        self._first = _Member(self, source, topic)
        self._others = [_Member(self, gateways, topic) for _ in range(MEMBERS)]

    def note_join(self) -> None:
        """Count that a member got partitions."""
        with self._lock:
            self.joins += 1

    def note_error(self, text: str) -> None:
        """Note that a commit was refused."""
        with self._lock:
            self.errors.append(text)

    def note_refused(self, partitions: Iterable[int]) -> None:
        """Note that a member must join again to commit: its records may come twice."""
        with self._lock:
            self._may_repeat.update(partitions)

    def note(self, partition: int, offset: int) -> None:
        """Note a record.  A partition must come in order, without a gap or a repeat.

        Once after note_refused(), records of the partition may come again.
        """
        with self._lock:
            expected = self._next.get(partition, 0)
            if offset < expected and partition in self._may_repeat:
                self._may_repeat.discard(partition)
                self.repeated += expected - offset
            elif offset != expected:
                self._problems.append(f"{GROUP}: partition {partition} at {offset}, not {expected}")
            self._next[partition] = offset + 1
            self.consumed_at[partition].append(now_ms())

    def await_all(self) -> None:
        """Wait until all four have partitions."""
        self._await([self._first, *self._others])

    def leave_source(self) -> None:
        """End the member at Kafka itself, and wait until the others have its partitions."""
        self._first.stop()
        self._await(self._others)

    def _await(self, members: Sequence[_Member]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            held = [each.assigned for each in members]
            if all(held) and sum(map(len, held)) == PARTITIONS:
                return
            time.sleep(0.1)
        raise TimeoutError(f"the members of {GROUP} hold {[each.assigned for each in members]}")

    def finish(self, ends: Sequence[int]) -> list[str]:
        """Wait until the group has read all records; return the problems."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and any(
            self._next.get(each, 0) < end for each, end in enumerate(ends)
        ):
            time.sleep(0.2)
        left: dict[int, Any] = {
            each: (self._next.get(each, 0), end)
            for each, end in enumerate(ends)
            if self._next.get(each, 0) < end
        }
        return [*self._problems[:10], *([f"{GROUP} did not read {left}"] if left else [])]

    def close(self) -> None:
        """End all members."""
        for each in (self._first, *self._others):
            each.stop()
