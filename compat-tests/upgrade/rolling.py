"""The roll itself: old -> new -> old -> new, then the version is raised, and old is refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from faults.attendance import Attendance
from faults.driver import Driver
from faults.watch import Watch, now_ms
from faults.world import World
from harness.process import spawn, tail

from upgrade.administrator import Administrator, CommandFailed, Host
from upgrade.guide import (
    BEFORE,
    DESCRIBE,
    ONE_GATEWAY,
    RAISE,
    START,
    STOP,
    from_installation,
    raised_to,
    until_start,
)
from upgrade.judging import FEATURE, Levels, early_raise, levels, odd_gateways
from upgrade.releases import Release
from upgrade.transactions import Transactions

DRIVER: Final = "driver"
ORDERS: Final[dict[str, Sequence[int | str]]] = {
    "gateways-first": (1, 2, 3, DRIVER),
    "driver-first": (DRIVER, 3, 2, 1),
}
HOSTS: Final = {number: Host(str(number), number) for number in (1, 2, 3)}
PIPELINE: Final = Host("pipeline", 1)
CALM_SECONDS = 3.0
REFUSED_SECONDS = 60.0
# The log forgets a gateway that stopped in order at once, and a driver after its lease of 30 s.
RAISE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Releases:
    """The two releases of a run."""

    older: Release
    newer: Release


class Upgrade:
    """One roll over a world under load."""

    def __init__(
        self,
        world: World,
        watch: Watch,
        transactions: Transactions,
        driver: Driver,
        administrator: Administrator,
        releases: Releases,
    ) -> None:
        self._world = world
        self._watch = watch
        self._transactions = transactions
        self._driver = driver
        self._administrator = administrator
        self._older, self._newer = releases.older, releases.newer
        self._running = dict.fromkeys(HOSTS, releases.older.version)

    def run(self, order: str) -> None:
        """Do the whole upgrade; each broken promise becomes a problem of the watch."""
        before = self._levels().on
        self._transactions.begin(before)
        self._calm("all of the older release")
        page = self._administrator.page
        self._administrator.run(page[BEFORE], HOSTS[1], self._newer, {})
        for release in (self._newer, self._older, self._newer):
            for step, what in enumerate(ORDERS[order]):
                self._replace(what, release)
                if step == 1:
                    self._check_early_raise(before)
        if self._levels().newest == before:
            return
        self._raise(before)
        for what in ORDERS[order]:
            self._restart(what)
        self._check_no_way_back()

    def _replace(self, what: int | str, release: Release) -> None:
        """Replace a gateway as the page says, or the driver; wait until all clients continue."""
        if isinstance(what, int):
            services = {
                STOP: partial(self._stop, what),
                START: partial(self._world.start_gateway, what),
            }
            self._follow(self._administrator.page[ONE_GATEWAY], what, release, services)
        else:
            self._driver.stop()
            self._administrator.install(PIPELINE, release)
            self._driver.start(PIPELINE.python)
        self._calm(f"{what} is of release {release.version}")

    def _follow(
        self,
        steps: Sequence[str],
        number: int,
        release: Release,
        services: Mapping[str, Callable[[], None]],
    ) -> None:
        """Run the page's commands on a gateway's machine; check the list of gateways they print."""
        answers = self._administrator.run(steps, HOSTS[number], release, services)
        self._running[number] = release.version
        self._watch.problems += odd_gateways(answers[-1].text, self._running)

    def _restart(self, what: int | str) -> None:
        if isinstance(what, int):
            self._stop(what)
            self._world.start_gateway(what)
        else:
            self._driver.stop()
            self._driver.start(PIPELINE.python)
        self._calm(f"{what} has started anew")

    def _stop(self, number: int) -> None:
        code = self._world.drain_gateway(number)
        if code:
            self._watch.problems.append(f"gateway {number} stopped with exit code {code}")

    def _calm(self, after: str) -> None:
        since_ms = now_ms()
        watches: list[Attendance] = [self._watch]
        watches += [self._transactions.watch] if self._transactions.watch is not None else []
        for each in watches:
            each.wait_until_moving(since_ms)
        self._watch.wait(CALM_SECONDS)
        self._driver.check()
        counts = "; ".join(each.counts() for each in watches)
        self._watch.say(f"{after}; {counts}")

    def _levels(self) -> Levels:
        """Return the levels that the page's command shows."""
        [describe] = [
            each for each in self._administrator.page[BEFORE] if each.startswith(DESCRIBE)
        ]
        [answer] = self._administrator.run([describe], HOSTS[1], self._newer, {})
        return levels(answer.text)

    def _set_level(self) -> str:
        """Set the level; return "" on success, else the error."""
        [command] = self._administrator.page[RAISE]
        answer = self._administrator.ask(command, HOSTS[1], self._newer)
        return answer.text.strip() if answer.code else ""

    def _check_early_raise(self, before: int) -> None:
        [command] = self._administrator.page[RAISE]
        refusal = self._set_level()
        self._watch.say(f"raised too early: {refusal or 'NOT REFUSED'}")
        after = self._levels().on
        self._watch.problems += early_raise(raised_to(command), before, after, refusal)

    def _raise(self, before: int) -> None:
        """Raise the level, and try again until the stopped processes are forgotten."""
        deadline = time.monotonic() + RAISE_SECONDS
        while refusal := self._set_level():
            if time.monotonic() > deadline:
                raise CommandFailed(f"{FEATURE} was not raised: {refusal}")
            self._watch.wait(1.0)
        found = self._levels()
        if found.on != found.newest:
            self._watch.problems.append(f"{FEATURE} is {found} after the raise")
        self._transactions.begin(found.on)
        self._calm(f"{FEATURE} is {found.on}, was {before}")

    def _check_no_way_back(self) -> None:
        """Check that a gateway of the older release ends with a message, and does no harm."""
        page = self._administrator.page[ONE_GATEWAY]
        services = {STOP: partial(self._stop, 3), START: partial(self._world.start_gateway, 3)}
        self._administrator.run(until_start(page), HOSTS[3], self._older, services)
        gateway = self._world.gateways[3]
        log = gateway.log.with_name("way-back.log")
        process = spawn(gateway.command, log)
        deadline = time.monotonic() + REFUSED_SECONDS
        while process.popen.poll() is None and time.monotonic() < deadline:
            self._watch.wait(0.2)
        code = process.popen.poll()
        process.kill()
        self._watch.say(f"the older release, exit code {code}: {tail(log, 400).strip()}")
        if not code or "metadata.version" not in tail(log):
            self._watch.problems.append(f"the older release was not refused: {tail(log)}")
        self._follow(from_installation(page), 3, self._newer, services)
        self._calm("the newer release is back")
