"""Reads a topic as a member of a consumer group, at least once.

The reader commits the records that it has written out: every COMMIT_SECONDS, before it gives
partitions up, and at the end.  If a member dies without a commit, the records of its last second
are read again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Final

import trio

from ..cluster import ClassicCluster
from ..consumer.reading import Found, ReadOptions, TopicReader
from ..errors import ClassicError
from .group_member import GroupMember

COMMIT_SECONDS: Final = 1.0
LEAVE_SECONDS: Final = 5.0


class GroupReader:
    """See the module's head.

    Args:
      options: `start` is for partitions of which the group has no offset.
      most: how many records to write; None for all.
      write: writes records out; what it took counts as read.
      note: gets sentences for a person.
    """

    def __init__(
        self,
        cluster: ClassicCluster,
        group: str,
        topic: str,
        options: ReadOptions,
        *,
        most: int | None,
        write: Callable[[list[Found]], Awaitable[object]],
        note: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._options = options
        self._left = most
        self._write = write
        self._note = note
        self._member = GroupMember(cluster, group, topic)
        self._read: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._commit_at = 0.0

    async def run(self) -> None:
        """Read until all partitions of this member end, or enough was written; then leave.

        Raises:
          Failed, ClassicError: as GroupMember and TopicReader.
          OSError: of write().
        """
        problems: list[Exception] = []
        async with trio.open_nursery() as nursery:

            async def beside(work: Callable[[], Awaitable[None]]) -> None:
                try:
                    await work()
                except Exception as error:
                    problems.append(error)
                    nursery.cancel_scope.cancel()

            nursery.start_soon(beside, self._member.heartbeats)
            nursery.start_soon(beside, self._member.watch_growth)
            try:
                while await self._generation():
                    pass
            except Exception as error:  # raised alone, without the nursery's exception group
                problems.append(error)
            finally:
                with trio.move_on_after(LEAVE_SECONDS, shield=True) as leaving:
                    await self._leave()
                if leaving.cancelled_caught:
                    self._note(
                        "the coordinator did not answer in time: the last offsets may not be"
                        " committed, and the group learns late that this member left"
                    )
            nursery.cancel_scope.cancel()
        if problems:
            raise problems[0]

    async def _generation(self) -> bool:
        """Read until the group changes; return whether to join it again."""
        member = self._member
        partitions = await member.join()
        self._read.clear()
        offsets = await member.committed()
        self._committed = {each: offsets[each] for each in partitions if each in offsets}
        if not partitions:
            return await self._wait_for_a_change()
        options = replace(
            self._options, partitions=tuple(partitions), starts=self._committed, has_turns=True
        )
        reader = TopicReader(self._cluster, self._topic, options, self._note)
        async with aclosing(reader.records()) as records:
            async for each in records:
                await self._take(each, reader)
                if self._left == 0:
                    return False
                if trio.current_time() >= self._commit_at:
                    await self._commit()
                if member.changed.is_set():
                    break
            else:
                self._read |= reader.positions  # also of partitions without a record
        await self._commit()
        return member.changed.is_set()

    async def _wait_for_a_change(self) -> bool:
        """Other members have all partitions; return whether to join again."""
        if not self._options.follows:
            self._note("the other members of the group read all partitions")
            return False
        await self._member.changed.wait()
        return True

    async def _take(self, found: list[Found], reader: TopicReader) -> None:
        chosen = found[: self._left]
        if chosen:
            await self._write(chosen)
        self._read |= reader.positions
        if self._left is not None:
            self._left -= len(chosen)
        if len(chosen) < len(found):
            last = chosen[-1] if chosen else found[0]
            self._read[last.partition] = last.record.offset + bool(chosen)

    async def _commit(self) -> None:
        self._commit_at = trio.current_time() + COMMIT_SECONDS
        new = dict(self._read.items() - self._committed.items())
        if not new:
            return
        if await self._member.commit(new):
            self._committed |= new
        else:
            self._read.clear()  # the partitions may be another member's
            self._note("the group changed before a commit: some records may be read twice")

    async def _leave(self) -> None:
        """Commit what was written, and leave; if that fails, others wait, or read records again."""
        try:
            await self._commit()
        except ClassicError as error:
            self._note(f"the last offsets are not committed: {error}")
        try:
            await self._member.leave()
        except ClassicError as error:
            self._note(f"the group learns late that this member left: {error}")
