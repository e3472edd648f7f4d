"""The log behind `dynamodb:`: an entry is an item, and a transaction is the append.

The transaction creates the entry and moves `end` from its position by one: both or neither. So
there are no gaps, a position is held once, and a writer that was paused during a trim is refused.
DynamoDB does not announce new items, so waiting callers poll, at the pace of a log of objects.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import trio

from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCapabilities,
    LogCorrupt,
    LogEntry,
    LogMisuse,
    LogUnavailable,
    Snapshot,
    Trimmed,
)
from tidegate_coordination.logs.dynamodb.bodies import Bodies
from tidegate_coordination.logs.dynamodb.client import Client, boto3_client
from tidegate_coordination.logs.dynamodb.decisions import (
    Trim,
    first_heads,
    how_to_trim,
    refused_append,
    too_far,
)
from tidegate_coordination.logs.dynamodb.items import Items
from tidegate_coordination.logs.dynamodb.layout import (
    ENTRIES,
    Head,
    Item,
    entry_name,
    entry_position,
    head_attributes,
    head_of,
)
from tidegate_coordination.logs.dynamodb.making import make_log
from tidegate_coordination.logs.dynamodb.table import Table
from tidegate_coordination.logs.dynamodb.url import Address
from tidegate_coordination.logs.objects.door import each_at_once, raise_first
from tidegate_coordination.logs.objects.growth import Growth
from tidegate_coordination.logs.objects.names import random_nonce
from tidegate_coordination.logs.objects.snapshots import ObjectSnapshots

CAPABILITIES: Final = LogCapabilities(
    forward_to_leader=True,
    typical_append_seconds=0.02,
    max_entry_bytes=1 << 20,
    inline_bytes_per_second=256 << 10,
    # Two write units for each further KB: from some 3 KB on, an item costs more than a PUT.
    inline_max_bytes=2 << 10,
)
_APPEND_SECONDS: Final = 15.0
_AGAIN_SECONDS: Final = 0.2
_BODIES_AT_ONCE: Final = 8


async def open_address(address: Address) -> "DynamoLog":
    """Open the log, making its table if it is absent.

    Raises:
        LogMisconfigured, LogUnavailable: as `opening.open_log`.
    """
    client = Client(address, boto3_client)
    try:
        await client.connect()
        await make_log(client)
    except BaseException:
        with trio.CancelScope(shield=True):
            await client.aclose()
        raise
    client.is_patient = True
    return DynamoLog(Table(client))


class DynamoLog:
    """Open it with `opening.open_log`.

    `new_nonce` gives a text that no other writer was ever given. `in_loop`: without threads.
    """

    def __init__(
        self, items: Items, *, new_nonce: Callable[[], str] = random_nonce, in_loop: bool = False
    ) -> None:
        self._items = items
        self._bodies = Bodies(items, new_nonce)
        self._snapshots = ObjectSnapshots(self._bodies, new_nonce, in_loop=in_loop)
        self._growth = Growth()

    @property
    def capabilities(self) -> LogCapabilities:
        return CAPABILITIES

    # -- appending --------------------------------------------------------------------------------

    async def append(self, position: int, payload: bytes) -> AppendResult:
        CAPABILITIES.check_append(position, payload)
        with trio.move_on_after(_APPEND_SECONDS):
            head = await self._bodies.prepare(entry_name(position), bytes(payload))
            result = await self._create(position, head)
            self._growth.note(position)
            return result
        raise LogUnavailable(f"DynamoDB did not append within {_APPEND_SECONDS:g} s")

    async def _create(self, position: int, head: Head) -> AppendResult:
        """Create an entry; if the answer is lost, try again and see which entry holds the position.

        Raises:
            LogUnavailable: the second answer was lost, too.
        """
        item = Item(head.name, head_attributes(head))
        try:
            end = await self._items.append(position, item)
        except LogUnavailable:
            await trio.sleep(_AGAIN_SECONDS)
            return await self._create_again(position, item, head.nonce)
        return AppendResult.APPENDED if end is None else refused_append(position, end)

    async def _create_again(self, position: int, item: Item, nonce: str) -> AppendResult:
        if await self._items.append(position, item) is None:
            return AppendResult.APPENDED
        end, held = await self._items.settled(position)
        if held is not None and head_of(Item(item.name, held)).nonce == nonce:
            return AppendResult.APPENDED
        return refused_append(position, end)

    # -- reading ----------------------------------------------------------------------------------

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        end = await self._items.end()
        self._growth.note(end.next - 1)
        if from_position < end.boundary:
            return Trimmed(end.boundary)
        if from_position > end.next:
            raise too_far(from_position, end)
        if from_position == end.next:
            self._growth.looked()
            return []
        with suppress(LogCorrupt):
            if entries := await self._read_within(from_position, end.next, max_bytes):
                return entries
        return await self._read_settled(from_position)

    async def _read_within(self, from_position: int, end: int, max_bytes: int) -> list[LogEntry]:
        """Return the entries before the first missing or damaged one.

        All are below `end`.  For a moment a read may see an entry before it sees the new `end`; the
        next read would then start beyond the end.

        Raises:
            LogCorrupt: the first entry is missing or damaged.
        """
        items, _ = await self._items.page(entry_name(from_position - 1), entry_name(end))
        heads = first_heads(items, from_position, max_bytes)
        found = await each_at_once(
            lambda index: self._bodies.body(heads[index]),
            range(len(heads)),
            at_once=_BODIES_AT_ONCE,
        )
        bodies: list[bytes] = []
        while isinstance(body := found.get(len(bodies)), bytes):
            bodies.append(body)
        if not bodies:
            raise_first(found)
        return [LogEntry(at, body) for at, body in enumerate(bodies, start=from_position)]

    async def _read_settled(self, position: int) -> list[LogEntry] | Trimmed:
        """Read one entry that must be there, by a transaction.

        Only a transaction is atomic: for a moment other reads may see the new `end`, but not the
        entry.
        """
        end, attributes = await self._items.settled(position)
        if position < end.boundary:
            return Trimmed(end.boundary)
        if attributes is None:
            raise LogCorrupt(f"entry {position} is missing from the log in DynamoDB")
        try:
            body = await self._bodies.body(head_of(Item(entry_name(position), attributes)))
        except LogCorrupt:
            if position < (boundary := (await self._items.end()).boundary):
                return Trimmed(boundary)
            raise
        return [LogEntry(position, body)]

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        await self._growth.wait(after_position, timeout_seconds, self._look)

    async def _look(self) -> None:
        self._growth.note((await self._items.end(consistent=False)).next - 1)

    # -- snapshots and trimming -------------------------------------------------------------------

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        await self._snapshots.save(position, chunks)

    async def load_snapshot(self) -> Snapshot | None:
        return await self._snapshots.load()

    async def trim(self, before_position: int) -> None:
        await self._raise_boundary(before_position)
        boundary = (await self._items.end()).boundary
        await self._bodies.delete_while(ENTRIES, lambda name: entry_position(name) < boundary)

    async def _raise_boundary(self, position: int) -> None:
        while True:
            how = how_to_trim(await self._items.end(), position)
            if how is Trim.REFUSE:
                raise LogMisuse(f"cannot trim below {position}: the log ends before")
            if (
                how is Trim.HOLDS
                or (how is Trim.RAISE and await self._items.raise_boundary(position))
                or (how is Trim.BEGIN and await self._items.begin_at(position))
            ):
                return
            # Another gateway trimmed or appended between the two calls.

    async def aclose(self) -> None:
        await self._items.aclose()
