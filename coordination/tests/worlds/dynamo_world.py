"""A table of DynamoDB in memory that tests can watch, hold up and cut short, and logs in it."""

from collections import Counter
from collections.abc import Callable, Sequence

import trio

from tidegate_coordination.log.metadata_log import LogCorrupt, LogUnavailable
from tidegate_coordination.logs.dynamodb.items import Page
from tidegate_coordination.logs.dynamodb.layout import (
    END,
    FIRST_END,
    Attributes,
    End,
    Item,
    end_attributes,
    end_of,
    entry_name,
)
from tidegate_coordination.logs.dynamodb.log import DynamoLog

PAGE_BYTES = 1 << 20
ITEM_BYTES = 400_000


class MemoryItems:
    """Counts requests; can cut a request short, before or after its effect, and delay pieces.

    Between two requests other tasks run, as over a network.
    """

    def __init__(self) -> None:
        self.log: dict[str, Attributes] = {END: end_attributes(FIRST_END)}
        self.pieces: dict[str, Attributes] = {}
        self.requests: Counter[str] = Counter()
        self.cut_at = 0  # the number of the request; all later ones fail too
        self.cut_after_effect = False
        self.lost_answers: list[bool] = []  # of the next appends: whether each takes effect
        self.held: trio.Event | None = None  # writes of pieces wait for this
        self.unseen: set[str] = set()  # items that only transactions see yet

    async def _request(self, kind: str) -> None:
        await trio.lowlevel.checkpoint()
        self.requests[kind] += 1
        if self.cut_at and (number := self.requests.total()) >= self.cut_at:
            if number == self.cut_at and self.cut_after_effect:
                return
            raise LogUnavailable("cut short")

    def _answer(self) -> None:
        if self.cut_at and self.requests.total() >= self.cut_at:
            raise LogUnavailable("cut short")

    def heal(self) -> None:
        self.cut_at = 0
        self.requests.clear()

    async def get(self, name: str) -> Attributes | None:
        await self._request("get")
        self._answer()
        return None if name in self.unseen else self.log.get(name)

    async def end(self, *, consistent: bool = True) -> End:
        await self._request("end" if consistent else "old end")
        self._answer()
        return self._end()

    def _end(self) -> End:
        if END not in self.log:
            raise LogCorrupt("lost its item 'end'")
        return end_of(self.log[END])

    async def settled(self, position: int) -> tuple[End, Attributes | None]:
        await self._request("settled")
        self._answer()
        return self._end(), self.log.get(entry_name(position))

    async def page(
        self, after: str, before: str, *, pieces: bool = False, limit: int | None = None
    ) -> Page:
        await self._request("page")
        self._answer()
        held = self.pieces if pieces else self.log
        names = sorted(each for each in held if after < each < before and each not in self.unseen)
        items: list[Item] = []
        left = PAGE_BYTES
        for name in names[:limit]:
            left -= _size(held[name])
            if items and left < 0:
                break
            items.append(Item(name, held[name]))
        return Page(items, len(items) == len(names))

    async def put(self, item: Item) -> bool:
        _check_size(item)
        await self._request("put")
        is_new = self.log.setdefault(item.name, item.attributes) is item.attributes
        self._answer()
        return is_new

    async def put_piece(self, item: Item) -> None:
        _check_size(item)
        if self.held is not None:
            await self.held.wait()
        await self._request("piece")
        self.pieces[item.name] = item.attributes
        self._answer()

    async def append(self, position: int, head: Item) -> End | None:
        _check_size(head)
        await self._request("append")
        is_lost = bool(self.lost_answers)
        if is_lost and not self.lost_answers.pop(0):
            raise LogUnavailable("not done")
        met: End | None = self._end()
        if met is not None and met.next == position and head.name not in self.log:
            self.log[head.name] = head.attributes
            self.log[END] = end_attributes(End(position + 1, met.boundary))
            met = None
        if is_lost:
            raise LogUnavailable("the answer was lost")
        self._answer()
        return met

    async def raise_boundary(self, position: int) -> bool:
        return await self._move(
            lambda end: end.boundary < position <= end.next, lambda end: End(end.next, position)
        )

    async def begin_at(self, position: int) -> bool:
        return await self._move(lambda end: end.is_pristine, lambda _: End(position, position))

    async def _move(self, holds: Callable[[End], bool], to: Callable[[End], End]) -> bool:
        await self._request("move")
        end = self._end()
        if is_met := holds(end):
            self.log[END] = end_attributes(to(end))
        self._answer()
        return is_met

    async def delete(self, names: Sequence[str], *, pieces: bool = False) -> None:
        held = self.pieces if pieces else self.log
        for name in names:
            await self._request("delete")
            held.pop(name, None)
            self._answer()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def _size(attributes: Attributes) -> int:
    return sum(len(each) if isinstance(each, bytes | str) else 8 for each in attributes.values())


def _check_size(item: Item) -> None:
    assert len(item.name) + _size(item.attributes) < ITEM_BYTES, "DynamoDB refuses such an item"


def opened(items: MemoryItems) -> DynamoLog:
    return DynamoLog(items, in_loop=True)
