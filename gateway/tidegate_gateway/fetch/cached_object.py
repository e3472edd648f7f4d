"""An object that this gateway wrote, in the reader's cache by its WalName."""

from __future__ import annotations

from dataclasses import dataclass, field

from .prepared_runs import PreparedRun


@dataclass(slots=True)
class CachedObject:
    """An object this gateway wrote.

    prepared: its runs by position, as they are first read; their offsets are written into the body,
    outside what any CRC covers.  is_stamped: so are time stamps and CRCs, so that the body is no
    longer what is stored.
    """

    object_key: str
    body: bytearray
    prepared: dict[int, PreparedRun] = field(default_factory=dict[int, PreparedRun])
    is_stamped: bool = False
