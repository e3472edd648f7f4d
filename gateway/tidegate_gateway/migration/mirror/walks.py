"""Walks over the records of mirrored batches: quick walks in the event loop, others in a thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate_coordination.client.fetched_batches import BadBatch, FetchedBatch
from tidegate_coordination.client.walked_batches import walked_batches
from tidegate_protocol.batches import CODEC_MASK, CRC_START

from ...produce.record_checks import LOOP_BYTES, LOOP_COMPRESSED_BYTES, LOOP_DECOMPRESSED_BYTES
from ...work.client import Client
from ...work.fair_pool import FairPool

_CODEC_AT: Final = CRC_START + 1  # the low byte of the attributes


class MirrorWalks:
    """See the module's head.

    A link shares the threads fairly with the clients that produce.

    Args:
      link: its name.
      max_bytes: the limit on the decompressed records of a batch; None if records are not checked.
    """

    def __init__(self, pool: FairPool, link: str, max_bytes: int | None) -> None:
        self._pool: Final = pool.of(Client(("link", link)))
        self._max_bytes: Final = max_bytes

    async def walked(self, batches: Sequence[FetchedBatch]) -> Sequence[FetchedBatch]:
        """Return the batches before the first bad one.

        Raises:
          BadBatch: the first batch is malformed, or too large.
          PoolBusy: no thread is free now.
        """
        most = self._max_bytes
        if most is None:
            return batches
        found = _walked_cheaply(batches, most)
        if len(found) == len(batches):
            return found
        size_bytes = sum(len(each.data) for each in batches)
        return await self._pool.run(
            lambda should_stop: walked_batches(batches, most, should_stop), size_bytes
        )


def _walked_cheaply(batches: Sequence[FetchedBatch], max_bytes: int) -> Sequence[FetchedBatch]:
    """Return all batches; none or fewer if the walk would take long or a batch is malformed."""
    is_compressed = any(each.data[_CODEC_AT] & CODEC_MASK for each in batches)
    size = sum(len(each.data) for each in batches)
    if size > (LOOP_COMPRESSED_BYTES if is_compressed else LOOP_BYTES):
        return ()
    room = min(max_bytes, LOOP_DECOMPRESSED_BYTES // max(len(batches), 1))
    try:
        return walked_batches(batches, room)
    except BadBatch:
        return ()
