"""The round trip with kcat (librdkafka 2.0): KCAT ADDRESS RECORDS, one line per check.

Record i goes to partition i mod 12, so its offset must be i div 12, and key and value can be
computed.  kcat makes topics only by use and cannot read a group's offsets, so the broker must have
num.partitions=12, and the offsets are judged by what a member reads next.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

PARTITIONS = 12
EXTRA = 10 * PARTITIONS
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PATIENCE_SECONDS = 60.0
FORMAT = r"%p\t%o\t%k\t%s\n"
REBALANCED = re.compile(r"rebalanced .*: (assigned|revoked): (.*)")


class Wrong(Exception):
    """A difference from what Kafka would do; its message says which."""


def key(i: int) -> str:
    """The key of record i."""
    return f"key-{i}"


def value(i: int) -> str:
    """The value of record i."""
    return f"{i}-{'tide' * (20 + i % 10)}"


def parsed(line: str) -> tuple[int, int]:
    """Check a printed record; return its partition and offset."""
    partition, offset, *content = line.rstrip("\n").split("\t")
    i = int(offset) * PARTITIONS + int(partition)
    if content != [key(i), value(i)]:
        raise Wrong(f"partition {partition}, offset {offset}: got {content}, want {key(i)}")
    return int(partition), int(offset)


@dataclass(slots=True)
class Kcat:
    """kcat with an address and a topic."""

    program: str
    address: str
    topic: str

    def command(self, *words: str) -> list[str]:
        """The words of one call."""
        return [self.program, "-b", self.address, "-X", "broker.address.family=v4", *words]

    def run(self, *words: str, stdin: str = "") -> str:
        """Run to the end and return stdout."""
        done = subprocess.run(
            self.command(*words), input=stdin, capture_output=True, text=True, timeout=120
        )
        if done.returncode:
            raise Wrong(f"kcat {' '.join(words)}: {done.stderr[-500:]}")
        return done.stdout

    def partition_count(self) -> int:
        """Ask for the topic's metadata, which makes the topic if there is none."""
        topics = json.loads(self.run("-L", "-J", "-t", self.topic))["topics"]
        return sum(len(topic["partitions"]) for topic in topics if topic["topic"] == self.topic)

    def produce(self, first: int, last: int) -> None:
        """Send records first..last-1 to their partitions, with all codecs in turn."""
        for n, codec in enumerate(CODECS):
            indexes = range(
                first + (last - first) * n // len(CODECS),
                first + (last - first) * (n + 1) // len(CODECS),
            )
            for partition in range(PARTITIONS):
                mine = [i for i in indexes if i % PARTITIONS == partition]
                lines = "".join(f"{key(i)}\t{value(i)}\n" for i in mine)
                to = ["-P", "-t", self.topic, "-p", str(partition), "-K", r"\t", "-z", codec]
                self.run(*to, "-X", "acks=all", stdin=lines)

    def read(self, partition: int, offset: str, *more: str) -> list[tuple[int, int]]:
        """The places of a partition's records from an offset to the end, contents checked."""
        words = ["-C", "-q", "-t", self.topic, "-p", str(partition), "-o", offset, "-f", FORMAT]
        return [parsed(line) for line in self.run(*words, *more).splitlines()]


@dataclass(slots=True)
class Seen:
    """The records that the members of a group have read."""

    counts: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    fault: Wrong | None = None
    # If kcat holds a record when the signal comes, it commits the record without printing it.
    dropped: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])

    def add(self, place: tuple[int, int]) -> None:
        """Count one record."""
        self.counts[place] = self.counts.get(place, 0) + 1

    def missing(self, indexes: Iterable[int]) -> int:
        """How many records are not read yet."""
        if self.fault:
            raise self.fault
        places = {(i % PARTITIONS, i // PARTITIONS) for i in indexes}
        missing = places - self.counts.keys()
        return 0 if len(missing) == 1 and missing <= self.dropped else len(missing)


class Member:
    """A kcat in a group; threads read what it prints."""

    def __init__(self, kcat: Kcat, group: str, seen: Seen, *more: str) -> None:
        options = ["auto.offset.reset=earliest", "heartbeat.interval.ms=500"]
        options += ["auto.commit.interval.ms=200", "session.timeout.ms=10000"]
        words = [word for option in options for word in ("-X", option)]
        words += [*more, "-u", "-f", FORMAT, "-G", group, kcat.topic]
        self._process = subprocess.Popen(
            kcat.command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._seen = seen
        self._next: dict[int, int] = {}
        self.held: set[str] = set()
        self._breaks = 0  # records that did not follow the last one of their partition
        self._rebalances = 0
        self._threads = [threading.Thread(target=work) for work in (self._read, self._listen)]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            try:
                self._take(*parsed(line))
            except (Wrong, ValueError) as error:
                self._seen.fault = Wrong(str(error))

    def _take(self, partition: int, offset: int) -> None:
        self._breaks += offset != self._next.get(partition, offset)
        self._next[partition] = offset + 1
        self._seen.add((partition, offset))

    def _listen(self) -> None:
        assert self._process.stderr
        for line in self._process.stderr:
            if found := REBALANCED.search(line):
                names = {name.strip() for name in found[2].split(",")}
                self._rebalances += found[1] == "assigned"
                self.held = names if found[1] == "assigned" else set()

    def leave(self) -> None:
        """SIGTERM: kcat commits and leaves the group."""
        self._process.terminate()
        self.wait()
        self._seen.dropped |= set(self._next.items())

    def wait(self) -> None:
        """Wait for the end of the process."""
        try:
            status = self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise Wrong("a member did not end") from None
        finally:
            for thread in self._threads:
                thread.join(PATIENCE_SECONDS)
        if status:
            raise Wrong(f"a member ended with status {status}")
        # Order breaks only where a partition went to another member and came back.
        if self._breaks > PARTITIONS * max(self._rebalances - 1, 0):
            raise Wrong(f"a member read {self._breaks} records out of order")


def until(wrong: Callable[[], str]) -> None:
    """Wait until `wrong()` has nothing to say."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while what := wrong():
        if time.monotonic() > deadline:
            raise Wrong(f"after {PATIENCE_SECONDS} s: {what}")
        time.sleep(0.1)


class Run:
    """The steps of the round trip, in order."""

    def __init__(self, program: str, address: str, wanted: int) -> None:
        self.kcat = Kcat(program, address, f"kcat-{time.time_ns()}")
        self.group = f"{self.kcat.topic}-group"
        self.records = wanted - wanted % (2 * PARTITIONS)
        self.seen = Seen()
        self.members: list[Member] = []
        self.middle_millis = 0

    def create(self) -> None:
        """Make the topic by use."""
        until(lambda: self._but(self.kcat.partition_count(), PARTITIONS, "partitions"))

    def gather(self) -> None:
        """Three members share the partitions."""
        self.members = [Member(self.kcat, self.group, self.seen) for _ in range(3)]
        self._shared()

    def _shared(self) -> None:
        def wrong() -> str:
            held = [len(member.held) for member in self.members]
            return "" if held == [4, 4, 4] else f"members hold {held} partitions"

        until(wrong)

    def first_half(self) -> None:
        """Produce, and let the group read."""
        self.kcat.produce(0, self.records // 2)
        self._read(self.seen, range(self.records // 2))

    def churn(self) -> None:
        """One member leaves and one joins while records come in."""
        time.sleep(0.05)  # so that no record of either half has this very millisecond
        self.middle_millis = time.time_ns() // 1_000_000
        time.sleep(0.05)
        producer = threading.Thread(target=self._second_half)
        producer.start()
        try:
            self.members.pop(0).leave()
            self.members.append(Member(self.kcat, self.group, self.seen))
        finally:
            producer.join()
        self._read(self.seen, range(self.records))
        self._shared()

    def _second_half(self) -> None:
        try:
            self.kcat.produce(self.records // 2, self.records)
        except Wrong as error:
            self.seen.fault = error

    def committed(self) -> None:
        """All members leave; a member that joins then reads nothing up to the end."""
        while self.members:
            self.members.pop().leave()
        later = Seen()
        Member(self.kcat, self.group, later, "-e").wait()
        if later.counts:
            raise Wrong(f"{len(later.counts)} records were read again")

    def resume(self) -> None:
        """New records, and only those, go to the next member."""
        self.kcat.produce(self.records, self.records + EXTRA)
        later = Seen()
        self.members.append(Member(self.kcat, self.group, later))
        self._read(later, range(self.records, self.records + EXTRA))
        self.members.pop().leave()
        if len(later.counts) != EXTRA:
            raise Wrong(f"{len(later.counts)} records were read, only {EXTRA} are new")

    def read_all(self) -> None:
        """Content, order and offsets of every partition."""
        count = (self.records + EXTRA) // PARTITIONS
        for partition in range(PARTITIONS):
            places = self.kcat.read(partition, "beginning", "-e")
            if places != [(partition, offset) for offset in range(count)]:
                raise Wrong(f"partition {partition} has {len(places)} records, not {count}")
            if self.kcat.read(partition, "-3", "-e") != places[-3:]:
                raise Wrong(f"partition {partition}: the last three records are others")

    def seek(self) -> None:
        """A search for the time between the halves finds where the second half begins."""
        want = self.records // 2 // PARTITIONS
        for partition in range(PARTITIONS):
            place = f"{self.kcat.topic}:{partition}:{self.middle_millis}"
            answer = self.kcat.run("-Q", "-t", place)
            if not answer.strip().endswith(f"offset {want}"):
                raise Wrong(f"asked for {place}: {answer.strip()}, not {want}")
            first = self.kcat.read(partition, f"s@{self.middle_millis}", "-c", "1")
            if first != [(partition, want)]:
                raise Wrong(f"seek by time gave {first}, not offset {want}")

    def _read(self, seen: Seen, indexes: range) -> None:
        until(lambda: self._but(seen.missing(indexes), 0, f"of {len(indexes)} records missing"))

    @staticmethod
    def _but(found: int, wanted: int, what: str) -> str:
        return "" if found == wanted else f"{found} {what}"

    def close(self) -> None:
        """End the processes that still run."""
        while self.members:
            self.members.pop().leave()


def main() -> int:
    """Run all steps; 1 at the first that fails."""
    run = Run(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    steps: list[tuple[str, Callable[[], None]]] = [
        ("create a topic with 12 partitions", run.create),
        ("three members share the partitions", run.gather),
        ("produce the first half with every codec, the group reads it", run.first_half),
        ("one member leaves and one joins while the second half is produced", run.churn),
        ("the group's offsets stand at the end", run.committed),
        ("a new member resumes where the group stopped", run.resume),
        ("content, order and offsets of every partition", run.read_all),
        ("seek by time", run.seek),
    ]
    for name, step in steps:
        try:
            step()
        except (Wrong, subprocess.TimeoutExpired) as error:
            print(f"FAILED {name}: {error}", flush=True)
            run.close()
            return 1
        print(f"ok {name}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
