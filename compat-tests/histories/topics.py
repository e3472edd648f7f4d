"""The topics of a run, and how client programs are asked to use them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LISTS: Final = "lists"
ACCOUNTS: Final = "accounts"
PARTITIONS: Final = {LISTS: 8, ACCOUNTS: 5}
ORDERS: Final = 4
"""Partitions of the topic of each family's orders."""
NUMBER_OF_ACCOUNTS: Final = 40
LEVELS: Final = {"c": "read_committed", "u": "read_uncommitted"}


def orders_of(family: str) -> str:
    """Return the topic with a family's orders."""
    return f"orders-{family}"


def group_of(family: str) -> str:
    """Return the group of a family's movers."""
    return f"movers-{family}"


def place(topic: str, partition: int) -> str:
    """Return how lines name a partition."""
    return f"{topic[0]}{partition}"


def places() -> dict[str, tuple[str, int]]:
    """Return (topic, partition) of each place that readers read, by its name in lines."""
    return {
        place(topic, each): (topic, each)
        for topic, count in PARTITIONS.items()
        for each in range(count)
    }


@dataclass(frozen=True, slots=True)
class Words:
    """The arguments of a client program.

    rate: transactions a second of each writer.  life: how often the family's program was started
    before.
    """

    bootstrap: str
    family: str
    zone: str
    rate: int
    seed: int
    life: int

    def texts(self) -> list[str]:
        """Return these arguments as texts.  The last three are numbers of partitions."""
        counts = (PARTITIONS[LISTS], PARTITIONS[ACCOUNTS], ORDERS)
        mine = (self.bootstrap, self.family, self.zone, self.rate, self.seed, self.life)
        return [str(each) for each in (*mine, *counts)]

    @classmethod
    def read(cls, texts: list[str]) -> Words:
        """Read the arguments that `texts` returned."""
        bootstrap, family, zone, *numbers = texts
        return cls(bootstrap, family, zone, *map(int, numbers[:3]))
