"""The door to the items of one log: what a table can do for it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tidegate_coordination.logs.dynamodb.layout import Attributes, End, Item


class Page(NamedTuple):
    """Some items in the order of their names; `is_last`: no items follow."""

    items: list[Item]
    is_last: bool


class Items(Protocol):
    """Items of the log itself, and of its pieces if `pieces`.

    All calls have deadlines, and repeat only throttled requests.  All raise:
        LogUnavailable: no answer, or none in time; the outcome of a call that writes is unknown.
        LogCorrupt: the table was deleted.
    """

    async def get(self, name: str) -> Attributes | None: ...

    async def end(self, *, consistent: bool = True) -> End:
        """Return `end`; an inconsistent read may be outdated, and costs half.

        Raises:
            LogCorrupt: it is missing.
        """
        ...

    async def page(
        self, after: str, before: str, *, pieces: bool = False, limit: int | None = None
    ) -> Page:
        """Return items with after < name < before: the first ones, and at least one if there are
        any.
        """
        ...

    async def put(self, item: Item) -> bool:
        """Put an item of the log unless there is one; False if one exists."""
        ...

    async def put_piece(self, item: Item) -> None: ...

    async def append(self, position: int, head: Item) -> End | None:
        """Create an entry's head and move `end` from its position by one: both or neither.

        Returns:
            None if done, else `end` at that time: it is at another position, or the head exists.
        """
        ...

    async def settled(self, position: int) -> tuple[End, Attributes | None]:
        """Return `end` and an entry's head as of one moment.

        Raises:
            LogCorrupt: `end` is missing.
        """
        ...

    async def raise_boundary(self, position: int) -> bool:
        """Raise the boundary, unless it is as high, or `next` is lower; return whether it rose."""
        ...

    async def begin_at(self, position: int) -> bool:
        """Let a log that never held an entry begin at a position; return whether it could."""
        ...

    async def delete(self, names: Sequence[str], *, pieces: bool = False) -> None:
        """Delete items; missing ones are fine."""
        ...

    async def aclose(self) -> None: ...
