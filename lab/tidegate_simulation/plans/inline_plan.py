"""Whether small writes travel in the metadata log.  Drawn apart from all other plans.

inlined.committed  a gateway committed an object whose bytes are in the log
inlined.moved      a stored object took over batches from the log
"""

from __future__ import annotations

from random import Random
from typing import Final

SHARE: Final = 0.3
COMMITTED: Final = "inlined.committed"
MOVED: Final = "inlined.moved"


def draw_inlining(seed: int) -> dict[str, str]:
    """Return the settings of all gateways: the size of objects that travel in the log; 0: none."""
    rng = Random(f"{seed}/small writes 1")
    is_on, size_bytes = rng.random() < SHARE, rng.choice(("300", "2000", "65536"))
    return {"wal.inline.max.bytes": size_bytes if is_on else "0"}
