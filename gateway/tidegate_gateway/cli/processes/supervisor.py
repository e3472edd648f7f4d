"""Starts several gateways, restarts those that fail, and stops all, one after the other.

The first starts alone, since it may create the cluster.  If a gateway ends before it has ever
served, the supervisor's start has failed.  The gateway has printed the reason, such as a wrong
setting.  A gateway that fails later is restarted, with growing pauses.  A gateway that ends with
exit code 0 was stopped by an operator, and stays down.  When all gateways are down in this way,
this process ends, too.  All gateways end if this process is killed (see --stop-at-eof).
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from math import inf
from typing import Any, Final

import structlog
import trio

from tidegate_runtime.addresses import host_port
from tidegate_runtime.http.client import HttpClient
from tidegate_runtime.http.tcp import tcp_connector
from tidegate_runtime.service_manager import ServiceManager

from ...upkeep.upkeep import Upkeep
from ..child_process import ChildProcess
from .pages import Asked
from .restarts import FIRST_SECONDS, Restarts

_log = structlog.get_logger("tidegate.app")

# Longer than the two minutes for which a starting gateway waits for the metadata log.
START_SECONDS: Final = 180.0
NOT_STARTED: Final = 1
"""Stands for the exit code of a process that the system refused."""


class Supervised:
    """One gateway; each of its starts is a new process.

    begun: set once the gateway serves for the first time, or has ended before that.  is_down: the
    gateway has ended, and is not started again.

    Args:
      words: the gateway's command line.  stop_seconds: how long a stop may take.  first_pause:
        before the first restart.  environ: variables besides those of this process.
    """

    def __init__(
        self,
        process: int,
        words: Sequence[str],
        stop_seconds: float,
        first_pause: float = FIRST_SECONDS,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.process = process
        self.begun = trio.Event()
        self.is_down = False
        self.said: Mapping[str, Any] = {}
        self.restarts = Restarts(first_pause)
        self._words = words
        self._stop_seconds = stop_seconds
        self._environ = environ or {}
        self._child: ChildProcess | None = None
        self._client: HttpClient | None = None
        self._stop = trio.Event()
        self._serves_now = False

    @property
    def asked(self) -> Asked:
        """The gateway as the admin pages ask it."""
        return Asked(self.process, self._client, self.restarts.count)

    async def run(self) -> None:
        """Run the gateway until a stop; restart it whenever it ends with an error.

        It is not restarted if it ends with exit code 0, or before it has ever served.
        """
        code, seconds = await self._live()
        self.begun.set()
        while code and self.said and not self._stop.is_set():
            pause = self.restarts.pause_after(seconds)
            _log.warning(
                "a gateway ended; starting it again",
                process=self.process,
                exit_code=code,
                seconds=pause,
            )
            with trio.move_on_after(pause):
                await self._stop.wait()
            if not self._stop.is_set():
                code, seconds = await self._live()
        self.is_down = True

    async def _live(self) -> tuple[int, float]:
        """Run one process to its end; return the exit code, and how long it served."""
        try:
            opened = await trio.lowlevel.open_process(
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **self._environ},
                process_group=0,
            )
        except OSError as error:
            _log.warning("a gateway cannot be started", process=self.process, error=str(error))
            return NOT_STARTED, 0.0
        child = self._child = ChildProcess(opened)
        if self._stop.is_set():  # stop() or call_off() came while there was no process to signal
            opened.kill()
        served_from = inf
        async with trio.open_nursery() as nursery:

            async def see_begin() -> None:
                nonlocal served_from
                if await self._serves(child):
                    served_from = trio.current_time()

            nursery.start_soon(see_begin)
            code = await child.wait()
        self._child = None
        self._serves_now = False
        if self._client is not None:
            await self._client.aclose()
            self._client = None
        return code, max(trio.current_time() - served_from, 0.0)

    async def _serves(self, child: ChildProcess) -> bool:
        said = None
        with trio.move_on_after(START_SECONDS):
            said = await child.announcement()
        if said is None:
            child.process.kill()  # no effect if the process has ended
            return False
        self.said = said
        self._serves_now = True
        if said["admin_url"] is not None:
            host, port = host_port("admin_url", str(said["admin_url"]).removeprefix("http://"))
            self._client = HttpClient(tcp_connector(host, port), host=f"{host}:{port}")
        self.begun.set()
        return True

    def hang_up(self) -> None:
        """Make the gateway look for new certificates, if it serves: before, SIGHUP would end it."""
        if self._child is not None and self._serves_now:
            self._child.process.send_signal(signal.SIGHUP)

    def call_off(self) -> None:
        """End the gateway's start, which can take minutes; the gateway then stays down."""
        self._stop.set()
        if self._child is not None:
            self._child.process.terminate()

    async def stop(self) -> None:
        """Let the gateway drain, and wait for its end; the gateway then stays down."""
        self._stop.set()
        child = self._child
        if child is None:
            return
        child.process.terminate()
        with trio.move_on_after(self._stop_seconds) as waited:
            await child.ended.wait()
        if waited.cancelled_caught:
            _log.warning("a gateway did not stop in time: killing it", process=self.process)
            child.process.kill()
            await child.ended.wait()


class Supervisor:
    """See the module's head.

    look: looks for new certificates of this process at SIGHUP, which the gateways get, too.  If
    look is None, SIGHUP ends this process, just as it ends a single gateway without TLS.
    """

    def __init__(
        self,
        gateways: Sequence[Supervised],
        manager: ServiceManager,
        look: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._upkeep = Upkeep()
        self.gateways = gateways
        self._look = look
        self._manager = manager
        self._stop = trio.Event()
        self._is_hurried = False

    async def run(
        self, serve_pages: Callable[[], Awaitable[None]], announce: Callable[[], None]
    ) -> int:
        """Run all gateways until a signal, or until operators stopped all; return the exit code.

        Args:
          serve_pages: serves the supervisor's admin pages, forever.  announce: called once, when
            all gateways serve.
        """
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with trio.open_nursery() as helpers:
                if self._look is not None:
                    await helpers.start(self._heed_hangups, self._look)
                helpers.start_soon(self._manager.feed)
                helpers.start_soon(serve_pages)
                has_started = False
                with trio.CancelScope() as lives:
                    helpers.start_soon(self._heed_signals, signals, lives)
                    has_started = await self._supervise(announce)
                helpers.cancel_scope.cancel()
        return 0 if has_started and not self._is_hurried else 1

    async def _supervise(self, announce: Callable[[], None]) -> bool:
        """Run all gateways to their end; return False if one ended before it ever served."""
        async with trio.open_nursery() as lives:
            has_started = await self._start_all(lives)
            if has_started and not self._stop.is_set():
                announce()
                self._manager.ready("serving clients")
                await self._stop.wait()
            self._manager.stopping("draining")
            for each in reversed(self.gateways):
                await each.stop()
        return has_started

    async def _start_all(self, lives: trio.Nursery) -> bool:
        first, *others = self.gateways
        for part in ([first], others):
            for each in part:
                lives.start_soon(self._run, each)
            for each in part:
                await each.begun.wait()
            if self._stop.is_set():
                return True
            if not all(each.said for each in part):
                return False
        return True

    async def _run(self, gateway: Supervised) -> None:
        await gateway.run()
        if not self._stop.is_set() and gateway.said:
            _log.info("a gateway was stopped, and stays down", process=gateway.process)
        if all(each.is_down and each.said for each in self.gateways):
            self._stop.set()

    async def _heed_hangups(
        self,
        look: Callable[[], Awaitable[None]],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Pass each SIGHUP on, and look; forever.  Slow files do not delay other signals."""
        with trio.open_signal_receiver(signal.SIGHUP) as hangups:
            task_status.started()
            async for _ in hangups:
                for each in self.gateways:
                    each.hang_up()
                await self._upkeep.attempt("look for new certificates", look)

    async def _heed_signals(self, signals: AsyncIterator[int], lives: trio.CancelScope) -> None:
        async for number in signals:
            if self._stop.is_set():
                _log.warning("stopping at once", signal=signal.Signals(number).name)
                self._is_hurried = True
                lives.cancel()
            else:
                _log.info("stopping", signal=signal.Signals(number).name)
                self._stop.set()
                for each in self.gateways:
                    if not each.begun.is_set():
                        each.call_off()
