"""Replies of one connection, in the order of its requests.

Every request that gets an answer takes a slot when it is read.  Whoever has the answer fills the
slot; whatever is ready at the head of the line goes out, joined, and the rest waits for its turn.
Parts that lie in files are never joined; small ones are not made (requests/fetch.py).
No I/O here: the connection asks for the parts to send and says how much of them went out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from tidegate_storage.stores.files.file_part import FilePart

from .transport import MAX_PARTS, Buffer, Part

# Below this a part is joined with its neighbours: sending it by itself costs more than the copy.
JOIN_BELOW_BYTES: Final = 32 * 1024


class ReplySlot:
    """A place in the line; parts is None until it is filled, and bytes for a small frame."""

    __slots__ = ("_line", "parts")

    def __init__(self, line: ReplyLine) -> None:
        self._line = line
        self.parts: Sequence[Part] | bytes | None = None

    def fill(self, parts: Sequence[Part]) -> None:
        """Put the whole reply in."""
        self.parts = parts
        self._line.held_bytes += sum(map(len, parts))

    def fill_small(self, frame: bytes) -> None:
        """Put a whole reply in that is smaller than JOIN_BELOW_BYTES."""
        self.parts = frame
        self._line.held_bytes += len(frame)


class ReplyLine:
    """The line of replies.

    held_bytes: filled in, and behind one that is not.  unsent_bytes: ready, and not sent.
    file_bytes: what of the latter lies in files.
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
        """Return what of it is in memory; of what is held, files count too, which is rare."""
        return self.held_bytes + self.unsent_bytes - self.file_bytes

    def open_slot(self) -> ReplySlot:
        """Add a place at the end."""
        slot = ReplySlot(self)
        self._slots.append(slot)
        return slot

    def collect(self) -> bool:
        """Move what is ready at the head of the line out of its slots; tell if there is any."""
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
        """Return what to send next, at most MAX_PARTS parts."""
        if len(self._ready) <= MAX_PARTS:
            return list(self._ready)
        return [self._ready[index] for index in range(MAX_PARTS)]

    def sent(self, size_bytes: int) -> None:
        """Forget the first size_bytes of what parts() returned."""
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
        """Forget everything; nothing more is sent."""
        self._slots.clear()
        self._ready.clear()
        self.held_bytes = self.unsent_bytes = self.file_bytes = 0
