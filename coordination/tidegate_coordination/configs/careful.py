"""The values that remove least, for settings whose effective value is unknown.

Removed records do not come back; records kept too long can be removed later.
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
"""Topic config -> value.  Configs that are not in this table remove nothing."""
