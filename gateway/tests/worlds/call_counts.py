"""Counts what a gateway calls for one request: functions of the product, and listeners of the log.

Calls of Python itself, Trio and other packages do not count, nor do those of the connection in
memory, which stands for a socket.  The walk over records does not count, because a compiled walk
shows no calls.  A coroutine counts each time it continues.  Comprehensions do not count, because
newer releases of Python call no function for them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from trio.testing import wait_all_tasks_blocked

from tests.worlds.wire_client import WireClient
from tidegate_coordination.coordinator.replica import Replica

_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})
_NOT_COUNTED = ("/network/memory_transport.py", "/tidegate_protocol/record_walk.py")
_TELLS = Replica._tell.__code__


@dataclass
class Calls:
    """How often each function was called, by file and name, and the listeners that were called."""

    functions: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    listeners: list[str] = field(default_factory=list[str])

    @property
    def count(self) -> int:
        return self.functions.total()

    def note(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Count a call.  This is a hook for sys.setprofile()."""
        code = frame.f_code
        if event != "call" or not _is_counted(code):
            return
        self.functions[_file_of(code), code.co_qualname] += 1
        if frame.f_back is not None and frame.f_back.f_code is _TELLS:
            self.listeners.append(code.co_qualname)

    def table(self) -> str:
        """Return the calls, a line for each function."""
        rows = sorted(self.functions.items())
        return "\n".join(f"{count:5} {file} {name}" for (file, name), count in rows)


def _is_counted(code: CodeType) -> bool:
    file = code.co_filename
    is_ours = "/tidegate_" in file and not file.endswith(_NOT_COUNTED)
    return is_ours and code.co_name not in _COMPREHENSIONS


def _file_of(code: CodeType) -> str:
    return "tidegate_" + code.co_filename.rpartition("/tidegate_")[2]


@contextmanager
def counted() -> Iterator[Calls]:
    """Count the calls of this thread during the block."""
    calls = Calls()
    before = sys.getprofile()
    sys.setprofile(calls.note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


async def calls_of(client: WireClient, frame: bytes) -> Calls:
    """Return the calls from a request's bytes to the bytes of its answer."""
    await wait_all_tasks_blocked()
    with counted() as calls:
        await client.send(frame)
        await client.receive()
    return calls
