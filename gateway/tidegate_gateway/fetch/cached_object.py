"""An object that this gateway wrote; the reader's cache has it by its WalName."""

from __future__ import annotations

from dataclasses import dataclass, field

from .prepared_runs import PreparedRun


@dataclass(slots=True)
class CachedObject:
    """An object this gateway wrote.

    prepared: its runs by position, each added at its first read.  At this time its offsets are
      written into the body; no CRC covers these bytes.  is_stamped: time stamps and CRCs were
      written into the body, too, so it differs from the stored object.
    """

    object_key: str
    body: bytearray
    prepared: dict[int, PreparedRun] = field(default_factory=dict[int, PreparedRun])
    is_stamped: bool = False
