"""Starts, watches and stops gateways by the commands that a person types.

Each gateway has a task that executes its commands in order, and a task for each of its processes
that waits for the end.  The command `kill` takes effect at once.  If a gateway ends by itself, this
process says so and does not start it again.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import trio

from ...refusals_to_start import sentence_of
from ..existing_cluster import ClusterOptions
from ..gateways.gateways import DrainOptions, drain, undrain
from .child import Child, start_child
from .keyboard import typed_lines
from .moves import Phase, Refused, Step, ending, is_wanted, steps
from .plan import GatewayPlan
from .text import Member
from .words import Command, NotUnderstood, Verb, help_text, parse

# Longer than the two minutes for which a starting gateway waits for the metadata log.  After these
# the gateway logs the error and ends by itself.
START_SECONDS: Final = 180.0
DRAIN_SECONDS: Final = 60
MAX_WAITING_COMMANDS: Final = 16


class StartFailed(Exception):
    """A gateway did not start; the text says why.  At the start of the cluster all others stop."""


class Voice:
    """Prints sentences to stdout, or to stderr if stdout is for JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self._file = sys.stderr if as_json else sys.stdout

    def say(self, text: str) -> None:
        """Print the effect of a command."""
        print(text, file=self._file, flush=True)

    def warn(self, text: str) -> None:
        """Print an event that no command caused."""
        print(f"tidegate: {text}", file=sys.stderr, flush=True)


class LocalGateway:
    """One gateway; each of its starts is a new process."""

    def __init__(self, plan: GatewayPlan, voice: Voice, log_level: str) -> None:
        self.plan = plan
        self.phase = Phase.DOWN
        self._voice = voice
        self._log_level = log_level
        self._said: Mapping[str, Any] = {}
        self._child: Child | None = None
        self._send, self._receive = trio.open_memory_channel[Verb](MAX_WAITING_COMMANDS)

    @property
    def member(self) -> Member:
        """The gateway's present state."""
        return Member(self.plan, self.phase, self._said)

    def tell(self, verb: Verb) -> None:
        """Give the gateway a command.

        The command `kill` takes effect at once; others wait for earlier commands.
        """
        if verb is Verb.KILL:
            self._kill()
            return
        try:
            self._send.send_nowait(verb)
        except trio.WouldBlock:
            self._voice.say(f"{self.plan.name} has {MAX_WAITING_COMMANDS} waiting commands already")

    async def run(self, nursery: trio.Nursery) -> None:
        """Execute the commands, forever.  nursery: owns its processes."""
        async for verb in self._receive:
            try:
                for step in steps(verb, self.phase):
                    await self._do(step, nursery)
            except Refused as refusal:
                self._voice.say(f"{self.plan.name} {refusal}")
            except StartFailed:
                pass  # the warning was printed when the process ended

    async def start(self, nursery: trio.Nursery) -> None:
        """Start the gateway, and wait until it serves.

        Raises:
          StartFailed: the gateway does not serve within START_SECONDS, or ends before.
        """
        began = trio.current_time()
        self.phase = Phase.STARTING
        child: Child = await nursery.start(self._live)
        said = None
        with trio.move_on_after(START_SECONDS):
            said = await child.announcement()
        if said is None:
            child.process.kill()  # no effect if the process has ended
            await child.ended.wait()
            raise StartFailed(child.last_words())
        self._said, self.plan = said, self.plan.settled(said)
        self.phase = Phase.SERVING
        seconds = trio.current_time() - began
        at = said["bootstrap_servers"]
        self._voice.say(f"{self.plan.name} serves at {at}, {seconds:.1f} s after its start")

    async def stop(self) -> None:
        """Stop the gateway if it runs, and wait for its end."""
        child = self._child
        if child is None:
            return
        if self.phase is not Phase.STOPPING:  # a second signal would end it without a drain
            self.phase = Phase.STOPPING
            child.process.terminate()
        seconds = self.plan.stop_seconds
        with trio.move_on_after(seconds):
            await child.ended.wait()
            return
        self._voice.warn(f"{self.plan.name} did not stop in {seconds:.0f} s: killing it")
        child.process.kill()
        await child.ended.wait()

    def _kill(self) -> None:
        if self._child is None:
            self._voice.say(f"{self.plan.name} is stopped already")
            return
        self.phase = Phase.DYING
        self._child.process.kill()

    async def _do(self, step: Step, nursery: trio.Nursery) -> None:
        if step is Step.START:
            await self.start(nursery)
        elif step is Step.STOP:
            await self.stop()
        else:
            await self._mark(is_draining=step is Step.DRAIN)

    async def _live(self, *, task_status: trio.TaskStatus[Child]) -> None:
        child = self._child = await start_child(self.plan, self._log_level)
        task_status.started(child)
        code = await child.wait()
        phase, self.phase, self._child = self.phase, Phase.DOWN, None
        what = f"{self.plan.name} {ending(phase, code)}"
        if is_wanted(phase):
            self._voice.say(what)
        else:
            self._voice.warn(f"{what}{self._circumstances(child)}")

    def _circumstances(self, child: Child) -> str:
        words = child.last_words()
        told = f"; the end of its log:\n{words}\n" if words else ". "
        number = self.plan.node_id
        return f"{told}`start {number}` starts it again; its log: {self.plan.log_file}"

    async def _mark(self, *, is_draining: bool) -> None:
        number = self.plan.node_id
        cluster = ClusterOptions(self.plan.data, self.plan.texts["metadata.log"])
        before = self.phase
        self.phase = Phase.DRAINING if is_draining else Phase.SERVING
        try:
            if is_draining:
                options = DrainOptions(number, stops=False, timeout_seconds=DRAIN_SECONDS)
                _ = await drain(cluster, options, self._voice.say, self._note_drained)
            else:
                await undrain(cluster, number, self._voice.say)
        except Exception as error:
            sentence = sentence_of(error)
            if sentence is None:
                raise
            self._voice.warn(sentence)
            if self._child is not None and not is_wanted(self.phase):
                self.phase = before

    def _note_drained(self) -> None:
        # Meanwhile another command may have stopped the gateway, or ended the drain.
        if self.phase is Phase.DRAINING:
            self.phase = Phase.DRAINED


class LocalCluster:
    """All gateways, from run() to the end."""

    def __init__(self, plans: Sequence[GatewayPlan], voice: Voice, *, log_level: str) -> None:
        self._gateways = [LocalGateway(each, voice, log_level) for each in plans]
        self._voice = voice
        self._quit = trio.Event()
        self._is_hurried = False

    @property
    def members(self) -> list[Member]:
        """The present state of each gateway."""
        return [each.member for each in self._gateways]

    async def run(self, announce: Callable[[], None], show_status: Callable[[], None]) -> int:
        """Run until a signal or `quit`; return the exit code.

        Args:
          announce: called once, when all gateways serve.
          show_status: called for the command `status`.

        Raises:
          StartFailed: a gateway did not start; the others were stopped.
        """
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with trio.open_nursery() as lives:
                lives.start_soon(self._heed_signals, signals, lives.cancel_scope)
                try:
                    await self._work(lives, announce, show_status)
                finally:
                    await self._stop_all()
                lives.cancel_scope.cancel()
        return 1 if self._is_hurried else 0

    async def _work(
        self, lives: trio.Nursery, announce: Callable[[], None], show_status: Callable[[], None]
    ) -> None:
        """Start all and execute typed commands; return after a signal or `quit`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._wait_for_quit, nursery.cancel_scope)
            await self._start_all(lives)
            announce()
            nursery.start_soon(self._read_commands, show_status)
            for each in self._gateways:
                nursery.start_soon(each.run, lives)

    async def _wait_for_quit(self, work: trio.CancelScope) -> None:
        await self._quit.wait()
        work.cancel()

    async def _start_all(self, lives: trio.Nursery) -> None:
        """Start the first gateway alone, since it creates the cluster; then start the others."""
        await self._gateways[0].start(lives)
        async with trio.open_nursery() as nursery:
            for each in self._gateways[1:]:
                nursery.start_soon(each.start, lives)

    async def _stop_all(self) -> None:
        async with trio.open_nursery() as nursery:
            for each in self._gateways:
                nursery.start_soon(each.stop)

    async def _heed_signals(
        self, signals: AsyncIterator[int], everything: trio.CancelScope
    ) -> None:
        async for _ in signals:
            if self._quit.is_set():
                self._voice.warn("killing the gateways that still run")
                self._is_hurried = True
                everything.cancel()
                return
            self._voice.say("stopping all")
            self._quit.set()

    async def _read_commands(self, show_status: Callable[[], None]) -> None:
        of_all: dict[Verb, Callable[[], None]] = {
            Verb.STATUS: show_status,
            Verb.HELP: partial(self._voice.say, help_text()),
            Verb.QUIT: self._quit.set,
        }
        async for line in typed_lines():
            try:
                command = parse(line, len(self._gateways))
            except NotUnderstood as error:
                self._voice.say(str(error))
                continue
            if command is not None:
                self._obey(command, of_all)

    def _obey(self, command: Command, of_all: Mapping[Verb, Callable[[], None]]) -> None:
        if command.node_id is None:
            of_all[command.verb]()
        else:
            self._gateways[command.node_id - 1].tell(command.verb)
