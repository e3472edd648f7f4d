"""An object that this gateway wrote, in the reader's cache by its WalName."""

from __future__ import annotations

from dataclasses import dataclass, field

from .prepared_runs import PreparedRun


@dataclass(slots=True)
class CachedObject:
    """An object this gateway wrote.

    prepared: its runs by position, filled at their first read; their offsets are written into the
      body, outside the bytes of any CRC.  is_stamped: time stamps and CRCs are written in, too, so
      that the body differs from the stored object.
    """

    object_key: str
    body: bytearray
    prepared: dict[int, PreparedRun] = field(default_factory=dict[int, PreparedRun])
    is_stamped: bool = False
