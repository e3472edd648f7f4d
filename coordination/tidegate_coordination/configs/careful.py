"""The values that remove least, for where the value that should hold cannot be known.

What was removed does not come back, and what was kept too long can be removed later.
"""

from __future__ import annotations

from typing import Final

from .definition import LONG_MAX

CAREFUL_VALUES: Final[dict[str, str]] = {
    "cleanup.policy": "",
    "delete.retention.ms": str(LONG_MAX),
    "max.compaction.lag.ms": str(LONG_MAX),
    "min.cleanable.dirty.ratio": "1",
    "min.compaction.lag.ms": str(LONG_MAX),
    "retention.bytes": "-1",
    "retention.ms": "-1",
}
"""Topic config -> value.  Those that are not here remove nothing."""
