"""Bodies of any size in items: the pieces first, then the head, which makes the body visible."""

from collections.abc import Callable
from functools import partial
from itertools import takewhile
from typing import Final, TypeVar

from tidegate_coordination.log.metadata_log import LogCorrupt
from tidegate_coordination.logs.dynamodb.items import Items
from tidegate_coordination.logs.dynamodb.layout import (
    LAST,
    Head,
    Item,
    cut,
    head_attributes,
    head_of,
    joined,
    piece_owner,
    piece_prefix,
)
from tidegate_coordination.logs.objects.door import each_at_once, raise_first

_AT_ONCE: Final = 4  # pieces
_DELETE_LIMIT: Final = 100

_T = TypeVar("_T")


class Bodies:
    """Named bodies; all calls raise what `Items` does.

    Each attempt to write a body has its own nonce. Pieces whose head was never written stay until
    their folder is cleared up to their name.
    """

    def __init__(self, items: Items, new_nonce: Callable[[], str]) -> None:
        self._items = items
        self._new_nonce = new_nonce

    async def prepare(self, name: str, body: bytes) -> Head:
        """Store the pieces of a body; return its head, which is not stored yet."""
        head, pieces = cut(name, body, self._new_nonce())
        stored = await each_at_once(
            lambda index: self._items.put_piece(pieces[index]),
            range(len(pieces)),
            at_once=_AT_ONCE,
        )
        raise_first(stored)
        return head

    async def create(self, name: str, body: bytes) -> bool:
        """Create a body; False if the name is taken."""
        head = await self.prepare(name, body)
        return await self._items.put(Item(name, head_attributes(head)))

    async def body(self, head: Head) -> bytes:
        """Return the body of a head.

        Raises:
            LogCorrupt: it is damaged, or was deleted meanwhile.
        """
        return joined(head, await self._pieces(head) if head.pieces else [])

    async def _pieces(self, head: Head) -> list[Item]:
        prefix = piece_prefix(head.name, head.nonce)
        found, after, is_last = list[Item](), prefix, False
        while not is_last:
            items, is_last = await self._items.page(after, prefix + LAST, pieces=True)
            found += items
            after = found[-1].name if found else after
        return found

    async def get_checked(self, name: str, check: Callable[[bytes], _T]) -> _T | None:
        """Return the result of `check` on a body; None if there is none. See
        `LogObjects.get_checked`.
        """
        try:
            return await self._checked(name, check)
        except LogCorrupt:
            return await self._checked(name, check)

    async def _checked(self, name: str, check: Callable[[bytes], _T]) -> _T | None:
        attributes = await self._items.get(name)
        if attributes is None:
            return None
        return check(await self.body(head_of(Item(name, attributes))))

    async def names(self, folder: str) -> list[str]:
        names, is_last = list[str](), False
        while not is_last:
            after = names[-1] if names else folder
            items, is_last = await self._items.page(after, folder + LAST)
            names += [each.name for each in items]
        return names

    async def delete_while(self, folder: str, is_old: Callable[[str], bool]) -> None:
        """Delete the first bodies of a folder, up to one that is not old; heads before pieces."""
        await self._delete_first(folder, is_old, pieces=False)
        await self._delete_first(folder, lambda piece: is_old(piece_owner(piece)), pieces=True)

    async def _delete_first(
        self, folder: str, is_old: Callable[[str], bool], *, pieces: bool
    ) -> None:
        look = partial(self._items.page, before=folder + LAST, pieces=pieces, limit=_DELETE_LIMIT)
        after, is_last = folder, False
        while not is_last:
            items, is_last = await look(after)
            old = [each.name for each in takewhile(lambda each: is_old(each.name), items)]
            if old:
                await self._items.delete(old, pieces=pieces)
            if len(old) < len(items) or not old:
                return
            after = old[-1]
