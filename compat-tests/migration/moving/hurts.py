"""Faults of gateways and of the source's brokers, each a moment after it was drawn."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from random import Random
from typing import Final

from faults.attendance import Say, clock
from faults.world import World

from migration.moving.source import Source

AFTER_SECONDS: Final = (0.6, 2.0)
AWAY_SECONDS: Final = (0.5, 8.0)


class Hurt(threading.Thread):
    """A fault under way.  The process that it hits comes back."""

    def __init__(self, what: str, after_seconds: float, act: Callable[[], None], say: Say) -> None:
        super().__init__(name=what)
        self._after_seconds = after_seconds
        self._act = act
        self._say = say
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """See Thread."""
        time.sleep(self._after_seconds)
        self._say(f"{clock()} {self.name}")
        try:
            self._act()
        except BaseException as error:
            self._error = error

    def settle(self) -> None:
        """Wait for its end; raise its error, if any."""
        self.join()
        if self._error is not None:
            raise RuntimeError(self.name) from self._error


def hurt_gateway(world: World, rng: Random, say: Say) -> Hurt:
    """Kill -9 or stop a gateway for a while."""
    number = rng.choice(list(world.gateways))
    kills = rng.random() < 0.5
    after, away = rng.uniform(*AFTER_SECONDS), rng.uniform(*AWAY_SECONDS)

    def kill() -> None:
        world.kill_gateway(number)
        time.sleep(away)
        world.start_gateway(number)

    def pause() -> None:
        world.gateways[number].signal(signal.SIGSTOP)
        time.sleep(away)
        world.gateways[number].signal(signal.SIGCONT)

    what = f"{'kill' if kills else 'pause'} of gateway {number} for {away:.1f} s"
    return Hurt(what, after, kill if kills else pause, say)


def hurt_source(source: Source, topic: str, rng: Random, say: Say) -> Hurt:
    """Kill -9 or stop a broker for a while, or have all leaders of the topic move."""
    nodes = source.cluster.nodes
    number = rng.choice(list(nodes))
    kind = rng.choice(["kill", "pause", "move"] if len(nodes) > 1 else ["kill", "pause"])
    after, away = rng.uniform(*AFTER_SECONDS), rng.uniform(*AWAY_SECONDS)

    def kill() -> None:
        nodes[number].kill()
        time.sleep(away)
        nodes[number].start()

    def pause() -> None:
        nodes[number].signal(signal.SIGSTOP)
        time.sleep(away)
        nodes[number].signal(signal.SIGCONT)

    if kind == "move":
        return Hurt(f"leaders of {topic} move", after, lambda: source.move_leaders(topic), say)
    act = kill if kind == "kill" else pause
    return Hurt(f"{kind} of broker {number} for {away:.1f} s", after, act, say)
