"""The table of claims: after any events its index by holder agrees with the claims."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate_coordination.events.cluster import ClaimReleased, ClaimTaken
from tidegate_coordination.state.long_values import LongList
from tidegate_coordination.state.writers.claims import Claim, ClaimTable

NAMES = tuple(f"{prefix}{number}" for prefix in ("group/", "task/") for number in range(4))
INCARNATIONS = range(5)  # 0 is the holder of released claims

Steps = list[tuple[str, str, int, int]]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["take", "take", "release", "inherit", "forget", "restore", "freeze"]),
        st.sampled_from(NAMES),
        st.sampled_from(INCARNATIONS[1:]),
        st.sampled_from(INCARNATIONS[1:]),
    ),
    max_size=40,
)


class World:
    """A table and its model: a plain dict, which is searched from end to end."""

    def __init__(self) -> None:
        self.table = ClaimTable()
        self.claims: dict[str, Claim] = {}
        self.frozen: list[tuple[LongList, list[list[object]]]] = []

    def take(self, name: str, one: int, _: int) -> None:
        epoch = self.claims[name].epoch + 1 if name in self.claims else 1
        self.table.fold_taken(ClaimTaken(name, one, epoch))
        self.claims[name] = Claim(one, epoch)

    def release(self, name: str, _one: int, _other: int) -> None:
        if name in self.claims:
            self.table.fold_released(ClaimReleased(name))
            self.claims[name] = Claim(0, self.claims[name].epoch)

    def inherit(self, _: str, one: int, other: int) -> None:
        self.table.inherit(one, other)
        for name, (incarnation, epoch) in self.claims.items():
            if incarnation == one:
                self.claims[name] = Claim(other, epoch)

    def forget(self, name: str, _one: int, _other: int) -> None:
        self.table.forget(name)
        self.claims.pop(name, None)

    def restore(self, _name: str, _one: int, _other: int) -> None:
        rows = decoded(self.table)
        self.table = ClaimTable()
        self.table.decode(rows)

    def freeze(self, _name: str, _one: int, _other: int) -> None:
        """Later steps must not show in a snapshot under way."""
        self.frozen.append((self.table.encode(), self.rows()))

    def rows(self) -> list[list[object]]:
        return [[name, *claim] for name, claim in sorted(self.claims.items())]

    def check(self) -> None:
        table, claims = self.table, self.claims
        assert {name: table.get(name) for name in NAMES} == {
            name: claims.get(name) for name in NAMES
        }
        for incarnation in INCARNATIONS:
            held = [name for name, each in claims.items() if each.incarnation == incarnation]
            for prefix in ("", "group/", "task/"):
                wanted = sorted(name for name in held if name.startswith(prefix))
                assert sorted(table.held_by(incarnation, prefix)) == wanted
        assert decoded(table) == self.rows()


def decoded(table: ClaimTable) -> list[list[object]]:
    return msgspec.msgpack.decode(b"".join(table.encode().parts()), type=list[list[object]])


@settings(max_examples=300, deadline=None, derandomize=True)
@given(STEPS)
def test_the_index_by_holder_says_what_the_claims_say(steps: Steps) -> None:
    world = World()
    for kind, name, one, other in steps:
        getattr(world, kind)(name, one, other)
        world.check()
    for rows, wanted in world.frozen:
        assert msgspec.msgpack.decode(b"".join(rows.parts())) == wanted


class CountedName(str):
    """A name that counts how often it is looked at."""

    __slots__ = ()
    looks = 0

    def startswith(self, *arguments: Any) -> bool:
        CountedName.looks += 1
        return super().startswith(*arguments)


def test_claims_of_others_are_not_walked() -> None:
    table = ClaimTable()
    for number in range(100):
        table.fold_taken(ClaimTaken(CountedName(f"group/{number}"), 1 if number else 2, 1))
    CountedName.looks = 0
    table.inherit(2, 3)
    assert table.held_by(3, "group/") == ["group/0"]
    assert table.held_by(2, "group/") == []
    assert CountedName.looks == 1
