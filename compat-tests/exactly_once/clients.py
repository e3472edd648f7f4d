"""Client programs that are started again whenever they end, and may be killed at any time."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Generic, TypeVar, cast

from faults.attendance import now_ms
from harness.process import Command

from exactly_once.lives import Life

AnyLife = TypeVar("AnyLife", bound=Life)

STOP_SECONDS = 30.0
START_AGAIN_SECONDS = 1.0  # after the process ended by itself

LOG4J = """\
status = ERROR
appender.console.type = Console
appender.console.name = ERR
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %m (%c)%n
rootLogger.level = INFO
rootLogger.appenderRef.err.ref = ERR
"""


class Client(Generic[AnyLife]):
    """A client program that is started again whenever its process ends.

    lives: one for each process; the last process may still run.  begin: makes a life, which gets
    each line of standard output.  Standard error goes to the log.
    """

    def __init__(
        self,
        name: str,
        command: Command,
        log: Path,
        begin: Callable[[int], AnyLife],
    ) -> None:
        self.name = name
        self.lives: list[AnyLife] = []
        self.is_wanted = True
        self.error: BaseException | None = None
        self._command = [str(word) for word in command]
        self._log = log
        self._begin = begin
        self._popen: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None
        self._guard = threading.Lock()
        log.parent.mkdir(parents=True, exist_ok=True)

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return self._popen is not None and self._popen.poll() is None

    def start(self) -> None:
        """Begin a life."""
        with self._log.open("ab") as errors:
            errors.write(f"== life {len(self.lives) + 1}\n".encode())
            errors.flush()
            self._popen = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        life = self._begin(now_ms())
        self.lives.append(life)
        self._listener = threading.Thread(
            target=self._listen, args=(self._popen, life), name=self.name, daemon=True
        )
        self._listener.start()

    def keep(self) -> None:
        """Start the program again if it ended by itself more than START_AGAIN_SECONDS ago.

        Raises:
          RuntimeError: a line could not be understood.
        """
        if self.error is not None:
            raise RuntimeError(f"{self.name} printed something odd") from self.error
        with self._guard:
            life = self.lives[-1]
            if self.is_running or not self.is_wanted or life.ended_ms is None:
                return
            if now_ms() - life.ended_ms > START_AGAIN_SECONDS * 1000:
                self.start()

    def kill(self, between: Callable[[], None] = lambda: None) -> None:
        """Kill the process (kill -9), call `between`, and start the program again if wanted."""
        with self._guard:
            self._kill()
            between()
            if self.is_wanted:
                self.start()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it runs."""
        with self._guard:
            if self._popen is not None and self._popen.poll() is None:
                self._popen.send_signal(number)

    def close(self) -> None:
        """SIGTERM, and wait; SIGKILL if it takes long."""
        self.is_wanted = False
        with self._guard:
            if self._popen is None:
                return
            if self._popen.poll() is None:
                self.lives[-1].was_ended = True
            self._popen.terminate()
            self._popen.send_signal(signal.SIGCONT)
            try:
                self._popen.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._kill()
            self._hear_out()

    def _kill(self) -> None:
        if self._popen is None:
            return
        if self._popen.poll() is None:
            self.lives[-1].was_ended = True
            self._popen.kill()
        self._popen.wait()
        self._hear_out()

    def _hear_out(self) -> None:
        assert self._listener is not None, "it was started"
        self._listener.join(STOP_SECONDS)

    def _listen(self, popen: subprocess.Popen[bytes], life: AnyLife) -> None:
        """Note each line, and keep it."""
        output = cast(IO[bytes], popen.stdout)
        try:
            with self._log.with_suffix(".lines").open("ab") as kept, output:
                for line in output:
                    kept.write(b"%d %b" % (now_ms(), line))
                    life.take(now_ms(), line.decode())
        except BaseException as error:
            self.error = error
        finally:
            life.code = popen.wait()
            life.ended_ms = now_ms()


def java(jars: str, folder: Path, *words: Any, heap: str = "192m") -> list[str]:
    """Return a command of a JVM whose log lines go to standard error."""
    settings = folder / "log4j2.properties"
    folder.mkdir(parents=True, exist_ok=True)
    settings.write_text(LOG4J)
    small = [f"-Xmx{heap}", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    log4j = f"-Dlog4j2.configurationFile={settings}"
    return ["java", *small, log4j, "-cp", jars, *map(str, words)]


def wait_until(is_done: Callable[[], bool], seconds: float, look_seconds: float = 0.05) -> bool:
    """Wait for the condition; return whether it became true in time."""
    deadline = time.monotonic() + seconds
    while not is_done():
        if time.monotonic() > deadline:
            return False
        time.sleep(look_seconds)
    return True
