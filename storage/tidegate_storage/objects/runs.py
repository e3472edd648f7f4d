"""The check that ties a run's bytes to its topic and partition.

The metadata log keeps 4 bytes for each run: CRC-32C over topic id, partition and the CRC fields of
the run's batch headers, in order.  Every batch's own CRC covers its bytes.  So if a reader verifies
each batch and computes the same check, it has exactly the batches that were committed for that
partition.  Bytes of other partitions in the same object never pass (decision 1).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from crc32c import crc32c

_HEAD = struct.Struct(">qi")


def headed_crc(crc: int, base_offset: int, leader_epoch: int) -> int:
    """Return a check value of a batch that was stored with its offset and epoch.

    Offset and epoch lie outside the batch's CRC, and no reader writes them.
    """
    return crc32c(_HEAD.pack(base_offset, leader_epoch), crc)


def run_check(topic_id: bytes, partition: int, batch_crcs: Sequence[int]) -> int:
    """Return the check of a run.

    Args:
      topic_id: 16 bytes.
      batch_crcs: the CRC field of each batch header, in order, as unsigned 32-bit numbers; or the
      value in its place, see headed_crc.
    """
    packed = struct.pack(f">16sI{len(batch_crcs)}I", topic_id, partition, *batch_crcs)
    return crc32c(packed)
