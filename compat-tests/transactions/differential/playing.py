"""Plays one script on both brokers at once, and compares after each step."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

import trio

from . import steps as st
from .comparing import Difference, compare
from .permitted import permission
from .player import Player, Stuck
from .seen import Seen, codes
from .wire import Caller, ConnectionLost, connect

Result = TypeVar("Result")

_LATE_SECONDS: Final = 2.0
"""Kafka drops offsets of a deleted topic and moves a high watermark a moment after its answer."""
_PAUSE_SECONDS: Final = 0.05
_CLOSED: Final = "connection"


class Brokers(NamedTuple):
    """The addresses of both brokers."""

    kafka: str
    gateway: str


@dataclass(slots=True)
class Outcome:
    """The result of a script.  answers: how often each step got each code from Kafka.

    permitted: names of the permitted differences that occurred.  differences: the unpermitted ones
    of one step, which ended the script.
    """

    script: st.Script
    steps: int = 0
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    permitted: set[str] = field(default_factory=set[str])
    differences: list[Difference] = field(default_factory=list)


async def play(script: st.Script, brokers: Brokers, prefix: str) -> Outcome:
    """Play a script, with names that begin with a prefix."""
    connections = [await connect(each) for each in brokers]
    try:
        return await play_on(script, connections, prefix)
    finally:
        for each in connections:
            await each.close()


async def play_on(script: st.Script, connections: Sequence[Caller], prefix: str) -> Outcome:
    """Play a script on two connections: to Kafka, and to a gateway."""
    outcome = Outcome(script)
    # If time stamps leap by days, Kafka starts another segment, and a fetch ends there.
    now_ms = int(time.time() * 1000)
    players = [
        Player(name, each, script, prefix, now_ms)
        for name, each in zip(Brokers._fields, connections, strict=True)
    ]
    await _both(players, lambda each: each.prepare())
    for index in range(len(script.steps)):
        if not await _step(script, index, players, outcome):
            break
    outcome.permitted.update(*(each.names.left_out for each in players))
    await _both(players, _finish)
    return outcome


async def _finish(player: Player) -> None:
    with suppress(ConnectionLost):
        await player.finish()


async def _step(script: st.Script, index: int, players: list[Player], outcome: Outcome) -> bool:
    """Take a step on both; return whether the script continues."""
    step = script.steps[index]

    async def take(player: Player) -> Seen:
        try:
            return await player.play(index, step)
        except ConnectionLost:
            return {_CLOSED: "closed"}
        except Stuck as stuck:
            return {_CLOSED: str(stuck)}

    answers = await _both(players, take)
    outcome.steps += 1
    outcome.answers.update((type(step).__name__, each) for each in codes(answers[0]))
    found = compare(script, index, *answers)
    lost = any(_CLOSED in each for each in answers)
    if not lost and _goes_on(found):
        found += await _state(script, index, players)
    return _settle(found, outcome) and not lost


async def _state(script: st.Script, index: int, players: list[Player]) -> list[Difference]:
    asked = [each.observer.questions(script.peeks[index]) for each in players]
    kafka, gateway = await _both(
        players, lambda each: each.observer.look(asked[players.index(each)])
    )
    found = compare(script, index, kafka, gateway)
    deadline = trio.current_time() + _LATE_SECONDS
    while _unexpected(found) and trio.current_time() < deadline:
        await trio.sleep(_PAUSE_SECONDS)
        kafka = await players[0].observer.look(asked[0])
        found = compare(script, index, kafka, gateway)
    return found


def _unexpected(found: list[Difference]) -> list[Difference]:
    return [each for each in found if permission(each) is None]


def _settle(found: list[Difference], outcome: Outcome) -> bool:
    """Record the differences of a step; return whether the script may continue.

    If a permitted difference ends the script, the other differences of this step do not count.
    """
    outcome.permitted.update({each.name for one in found if (each := permission(one)) is not None})
    if not _goes_on(found):
        return False
    outcome.differences = _unexpected(found)
    return not outcome.differences


def _goes_on(found: list[Difference]) -> bool:
    """Return whether no permitted difference ends the script."""
    return not any(each.ends for one in found if (each := permission(one)) is not None)


async def _both(players: list[Player], act: Callable[[Player], Awaitable[Result]]) -> list[Result]:
    results: dict[int, Result] = {}

    async def one(number: int) -> None:
        results[number] = await act(players[number])

    async with trio.open_nursery() as nursery:
        for number in range(len(players)):
            nursery.start_soon(one, number)
    return [results[number] for number in range(len(players))]
