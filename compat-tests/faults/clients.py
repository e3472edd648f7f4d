"""The client programs of a run, one process a family, and what they print."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Generic, Protocol, TypeVar, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from harness import install
from harness.places import HERE
from harness.process import Command
from harness.toolbox import java_command

from faults.ledger import FamilyLedger, Found

TOPIC: Final = "faults"
PARTITIONS: Final = 12
SWEEP_SECONDS: Final = 180.0
CLOSE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Load:
    """The settings of all families.  rate: records a second of each."""

    bootstrap: str
    rate: int
    topic: str = TOPIC


def _librdkafka() -> Command:
    return [sys.executable, HERE / "faults" / "librdkafka_client.py"]


def _plain() -> Command:
    return [*_librdkafka(), PLAIN]


def _java() -> Command:
    return [*java_command(), HERE / "java" / "FaultClient.java"]


def _franz_go() -> Command:
    return [install.go_clients() / "fault-client"]


FAMILIES: Final[Mapping[str, Callable[[], Command]]] = {
    "librdkafka": _librdkafka,
    "java": _java,
    "franz-go": _franz_go,
}
PLAIN: Final = "plain"
"""A family whose producer is not idempotent: what a broken connection interrupts, it repeats."""
COMMANDS: Final[Mapping[str, Callable[[], Command]]] = {**FAMILIES, PLAIN: _plain}


class Taker(Protocol):
    """Records the output of a client program."""

    def take(self, line: str) -> None:
        """Note one line."""
        ...

    def problem(self, text: str) -> None:
        """Record a problem."""
        ...


L = TypeVar("L", bound=Taker)


class Family(Generic[L]):
    """A running client program; a thread notes what it prints."""

    def __init__(self, name: str, command: Command, ledger: L, *, log: Path) -> None:
        self.name = name
        self.ledger = ledger
        log.parent.mkdir(parents=True, exist_ok=True)
        self._kept = log.with_suffix(".lines")
        with log.open("wb") as errors:
            self._popen = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._listen, name=name, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise if the program ended, or printed a line that cannot be parsed."""
        if self._error is not None:
            raise RuntimeError(f"{self.name} printed something odd") from self._error
        if self._popen.poll() is not None:
            raise RuntimeError(f"the client of {self.name} ended with {self._popen.returncode}")

    def tell(self, word: str) -> None:
        """Send a command to the program.  After `flush` its producers end, and report their end."""
        commands = cast(IO[bytes], self._popen.stdin)
        commands.write(f"{word}\n".encode())
        commands.flush()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._popen.send_signal(number)

    def kill(self) -> None:
        """kill -9; what it printed before is noted."""
        self.signal(signal.SIGKILL)
        self._popen.wait()
        self._thread.join(CLOSE_SECONDS)

    def close(self) -> None:
        """End it."""
        cast(IO[bytes], self._popen.stdin).close()
        try:
            self._popen.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.ledger.problem(f"the client did not end in {CLOSE_SECONDS:.0f} s")
            self._popen.kill()
            self._popen.wait()
        self._thread.join(CLOSE_SECONDS)
        cast(IO[bytes], self._popen.stdout).close()

    def _listen(self) -> None:
        """Note each line, and keep it."""
        try:
            with self._kept.open("wb") as kept:
                for line in cast(IO[bytes], self._popen.stdout):
                    kept.write(line)
                    # Otherwise the program was killed while it wrote the line.
                    if line.endswith(b"\n"):
                        self.ledger.take(line.decode())
        except BaseException as error:
            self._error = error


def start_families(names: Sequence[str], load: Load, logs: Path) -> list[Family[FamilyLedger]]:
    """Start the programs.  `names` has only clients that are installed here."""
    families: list[Family[FamilyLedger]] = []
    for number, name in enumerate(names, start=1):
        words = [load.bootstrap, load.topic, PARTITIONS, load.rate, f"az-{number}"]
        command = [*COMMANDS[name](), *map(str, words)]
        ledger = FamilyLedger(name, is_idempotent=name != PLAIN)
        families.append(Family(name, command, ledger, log=logs / f"{name}.log"))
    return families


def installed(
    names: Sequence[str],
    say: Callable[[str], None],
    families: Mapping[str, Callable[[], Command]] = COMMANDS,
) -> list[str]:
    """Return the clients that this machine can run; print why it cannot run the others."""
    found: list[str] = []
    for name in names:
        try:
            families[name]()
        except install.MissingTool as missing:
            say(f"{name} is skipped: {missing}")
        else:
            found.append(name)
    return found


def create_topic(bootstrap: str) -> None:
    """Create the topic of the run."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(60)


def sweep(bootstrap: str, topic: str = TOPIC) -> Found:
    """Read the topic from its start to its end.

    Raises:
      TimeoutError: it could not be read in SWEEP_SECONDS.
    """
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "sweep", "enable.auto.commit": False}
    )
    try:
        ends = {
            each: consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=60)[1]
            for each in range(PARTITIONS)
        }
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in ends])
        return _read_to(consumer, ends)
    finally:
        consumer.close()


def _read_to(consumer: Consumer, ends: Mapping[int, int]) -> Found:
    found: dict[int, list[tuple[int, str, int, int]]] = {each: [] for each in ends}
    missing, idle = sum(ends.values()), 0.0
    while missing > 0:
        messages = consumer.consume(num_messages=5000, timeout=1.0)
        idle = 0.0 if messages else idle + 1.0
        if idle > SWEEP_SECONDS:
            raise TimeoutError(f"{missing} of {sum(ends.values())} records could not be read")
        for message in messages:
            value, partition, offset = message.value(), message.partition(), message.offset()
            if message.error() is not None or value is None:
                continue
            assert partition is not None
            assert offset is not None
            name, number, meant, _ = value.decode().split(" ", 3)
            found[partition].append((offset, name, int(number), int(meant)))
            missing -= 1
    return found
