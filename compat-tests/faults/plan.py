"""Which faults come, by seed.  No I/O here."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from faults.relay import Mode

# kind -> its shortest and longest time, in seconds; (0, 0): the process starts again at once.
KINDS: Final = {
    "kill": (0.0, 0.0),
    "kill, away": (4.0, 12.0),
    "pause": (2.0, 20.0),
    "drain": (0.0, 0.0),
    "partition clients": (2.0, 15.0),
    "partition log": (2.0, 15.0),
    "partition store": (2.0, 15.0),
    "postgres restart": (0.0, 0.0),
    "postgres kill": (0.0, 0.0),
    "seaweed restart": (0.0, 0.0),
    "seaweed kill": (0.0, 0.0),
}
# Only clients with transactions notice these.
TRANSACTION_KINDS: Final = {
    "ends late": (2.0, 12.0),
    "ends repeated": (2.0, 6.0),
    "log away": (3.0, 15.0),
    "store away": (3.0, 15.0),
    "client kill": (0.0, 4.0),
    "client pause": (3.0, 25.0),
}
_SECONDS: Final = KINDS | TRANSACTION_KINDS
_OF_ALL: Final = ("postgres", "seaweed", "ends", "log", "store")
PARTITIONS: Final = (Mode.REFUSE, Mode.HOLD, Mode.LOSE, Mode.DEAF, Mode.DELAY)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of gateway `gateway` (0: of all, or of a server that all use) for `seconds`.

    For a fault of a client, `gateway` is the number of the client.
    """

    kind: str
    gateway: int
    seconds: float = 0.0
    mode: Mode = Mode.PASS

    def __str__(self) -> str:
        """Say it in words."""
        words = [self.kind]
        words += [f"({self.mode})"] if self.mode is not Mode.PASS else []
        whose = "client" if self.kind.startswith("client") else "gateway"
        words += [f"of {whose} {self.gateway}"] if self.gateway else []
        words += [f"for {self.seconds:.1f} s"] if self.seconds else []
        return " ".join(words)


def draw(seed: int, gateways: int, kinds: Sequence[str] = tuple(KINDS)) -> Iterator[Fault]:
    """Yield faults without end: all kinds once in random order, then all again, and so on."""
    source = random.Random(seed)
    while True:
        for kind in source.sample(kinds, len(kinds)):
            low, high = _SECONDS[kind]
            yield Fault(
                kind,
                0 if kind.startswith(_OF_ALL) else source.randint(1, gateways),
                round(source.uniform(low, high), 1),
                source.choice(PARTITIONS) if kind.startswith("partition") else Mode.PASS,
            )
