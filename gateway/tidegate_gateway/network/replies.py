"""Replies of one connection, in the order of its requests.

When the connection reads a request that gets an answer, it opens a slot.  The handler fills the
slot.  The connection joins and sends the filled slots at the head of the line.  Slots after an
unfilled one wait.  Parts in files are never joined; requests/fetch.py makes no small parts in
files.  No I/O here: the connection gets the parts to send, and reports how many bytes left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from tidegate_storage.stores.files.file_part import FilePart

from .transport import MAX_PARTS, Buffer, Part

# Smaller parts are joined with their neighbours, since a separate send takes longer than the copy.
JOIN_BELOW_BYTES: Final = 32 * 1024


class ReplySlot:
    """A place in the line.  parts: None until it is filled; bytes for a small frame."""

    __slots__ = ("_line", "parts")

    def __init__(self, line: ReplyLine) -> None:
        self._line = line
        self.parts: Sequence[Part] | bytes | None = None

    def fill(self, parts: Sequence[Part]) -> None:
        """Set the whole reply."""
        self.parts = parts
        self._line.held_bytes += sum(map(len, parts))

    def fill_small(self, frame: bytes) -> None:
        """Set the whole reply, which is smaller than JOIN_BELOW_BYTES."""
        self.parts = frame
        self._line.held_bytes += len(frame)


class ReplyLine:
    """The line of replies.

    held_bytes: the bytes of filled slots that wait for an earlier slot.  unsent_bytes: the bytes
    that are ready, but not sent.  file_bytes: the part of unsent_bytes that is in files.
    """

    def __init__(self) -> None:
        self._slots: deque[ReplySlot] = deque()
        self._ready: deque[Part] = deque()
        self.held_bytes = 0
        self.unsent_bytes = 0
        self.file_bytes = 0

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def memory_bytes(self) -> int:
        """The bytes in memory.  Held parts in files are counted, too, but they are rare."""
        return self.held_bytes + self.unsent_bytes - self.file_bytes

    def open_slot(self) -> ReplySlot:
        """Add a place at the end."""
        slot = ReplySlot(self)
        self._slots.append(slot)
        return slot

    def collect(self) -> bool:
        """Take the filled slots from the head of the line; return whether any part is ready."""
        small: list[Buffer] = []
        slots = self._slots
        while slots and (parts := slots[0].parts) is not None:
            slots.popleft()
            if isinstance(parts, bytes):
                small.append(parts)
            else:
                self._collect_parts(parts, small)
        self._flush_small(small)
        return bool(self._ready)

    def _collect_parts(self, parts: Sequence[Part], small: list[Buffer]) -> None:
        for part in parts:
            if len(part) < JOIN_BELOW_BYTES and not isinstance(part, FilePart):
                small.append(part)
                continue
            self._flush_small(small)
            if isinstance(part, FilePart):
                self.file_bytes += len(part)
            self._make_ready(part)

    def _flush_small(self, small: list[Buffer]) -> None:
        if small:
            self._make_ready(small[0] if len(small) == 1 else b"".join(small))
            small.clear()

    def _make_ready(self, part: Part) -> None:
        self.held_bytes -= len(part)
        self.unsent_bytes += len(part)
        self._ready.append(part)

    def parts(self) -> list[Part]:
        """Return the parts to send next, at most MAX_PARTS."""
        if len(self._ready) <= MAX_PARTS:
            return list(self._ready)
        return [self._ready[index] for index in range(MAX_PARTS)]

    def sent(self, size_bytes: int) -> None:
        """Drop the first size_bytes of the parts that parts() returned."""
        self.unsent_bytes -= size_bytes
        while size_bytes:
            head = self._ready[0]
            if self.file_bytes and isinstance(head, FilePart):
                self.file_bytes -= min(len(head), size_bytes)
            if len(head) > size_bytes:
                rest = head if isinstance(head, FilePart) else memoryview(head)
                self._ready[0] = rest[size_bytes:]
                return
            size_bytes -= len(head)
            self._ready.popleft()

    def clear(self) -> None:
        """Drop all slots and parts: the connection sends no more."""
        self._slots.clear()
        self._ready.clear()
        self.held_bytes = self.unsent_bytes = self.file_bytes = 0
