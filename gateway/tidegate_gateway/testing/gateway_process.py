"""A gateway's process, started and ended by a program without an event loop.

It starts no thread in the caller's process, so the caller may fork.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import IO, Any, Final, Self

CHILD: Final = "tidegate_gateway.testing.child"
STOP_SECONDS: Final = 10.0
QUOTED_BYTES: Final = 2000
READ_BYTES: Final = 4096

Value = str | int | bool
"""The types that a setting may be given as; each is read from its text."""


class GatewayFailed(Exception):
    """A gateway did not start, or ended unexpectedly; the text quotes the end of its output."""


class GatewayProcess:
    """A gateway process that ends with the block, or when this process ends.  popen: its handle."""

    def __init__(self, settings: Mapping[str, Value]) -> None:
        """Start the process; see running_gateway()."""
        with ExitStack() as files:
            # The file has no name, so nothing of it remains.  It is opened for appending, since
            # child.py empties it when it is long.
            self._output = files.enter_context(tempfile.TemporaryFile("a+b"))
            self.popen = subprocess.Popen(
                # -P: a folder of tests may have modules with the same names as modules of the
                # gateway.
                [sys.executable, "-P", "-m", CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._output,
                # Ctrl+C in a terminal shall reach only the caller, which ends the gateway when it
                # is done.
                start_new_session=True,
            )
            assert self.popen.stdin is not None
            assert self.popen.stdout is not None
            self._said: IO[bytes] = files.enter_context(self.popen.stdout)
            files.callback(_close, self.popen.stdin)
            self._files = files.pop_all()
        # If the process has ended already, reading its first line shows this.
        with suppress(BrokenPipeError):
            _ = self.popen.stdin.write(_line_of(settings))
            self.popen.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def bootstrap_servers(self, seconds: float) -> str:
        """Wait until the gateway serves; return the addresses of its listeners.

        Raises:
          GatewayFailed: the gateway ended, or `seconds` passed.
        """
        said: dict[str, Any] = json.loads(self._first_line(seconds))
        return str(said["bootstrap_servers"])

    def _first_line(self, seconds: float) -> bytes:
        deadline = time.monotonic() + seconds
        line = b""
        with selectors.DefaultSelector() as selector:
            _ = selector.register(self._said, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(deadline - time.monotonic(), 0.0)):
                    raise GatewayFailed(
                        f"the gateway did not serve within {seconds:g} s{self._last_words()}"
                    )
                part = os.read(self._said.fileno(), READ_BYTES)
                if not part:
                    raise GatewayFailed(f"the gateway did not start{self._last_words()}")
                line += part
        return line

    def check_that_it_runs(self) -> None:
        """Check that the process has not ended.

        Raises:
          GatewayFailed: the process has ended.
        """
        code = self.popen.poll()
        if code is not None:
            raise GatewayFailed(f"the gateway ended with exit code {code}{self._last_words()}")

    def _last_words(self) -> str:
        """Return the end of the process's output, as the end of a sentence."""
        size = self._output.seek(0, os.SEEK_END)
        _ = self._output.seek(max(size - QUOTED_BYTES, 0))
        text = self._output.read(QUOTED_BYTES).decode(errors="replace").strip()
        return f"; its last lines:\n{text}" if text else ", and printed nothing"

    def stop(self) -> None:
        """End the process by SIGTERM, or after STOP_SECONDS by SIGKILL."""
        try:
            self.popen.terminate()
            _ = self.popen.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pass  # the process is killed below, also if Ctrl+C ends this wait
        finally:
            self.popen.kill()
            _ = self.popen.wait()
            self._files.close()


def _close(pipe: IO[bytes]) -> None:
    with suppress(BrokenPipeError):  # an ended process did not read all of its input
        pipe.close()


def _line_of(settings: Mapping[str, Value]) -> bytes:
    assignments = [f"{name}={value}" for name, value in settings.items()]
    return json.dumps(assignments).encode() + b"\n"
