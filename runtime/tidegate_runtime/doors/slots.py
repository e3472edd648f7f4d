"""The connections of a door: one listener, or several that share their bounds.

A connection comes in as a stranger, and takes a slot once its client is known: by a login, a token
or a certificate, or at once if the listener asks for none of these.  Strangers have a separate
share, in which a new stranger replaces an old one (crowd.py).  So clients that only connect take no
slot, and there is always room for one more client that is about to log in.

At a door for Kafka's clients the share is an eighth of max.connections, and part of them.  At
max.connections such a door accepts nothing, and clients wait, as in Kafka.  A door that speaks HTTP
has its strangers in addition to the slots, and always accepts, since strangers may read health
pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import structlog
import trio

from tidegate_runtime.doors.crowd import Crowd
from tidegate_runtime.said_again import SaidAgain

_log = structlog.get_logger("tidegate.server")

SHARE: Final = 8
HTTP_STRANGERS: Final = 128
"""The strangers of a door that speaks HTTP."""
STRANGER_SECONDS: Final = 10.0
"""How long a connection may take to become known.  Kafka's clients have as long to log in."""
NO_BOUND: Final = 2**31 - 1
_MAPPED: Final = "::ffff:"
_CLOSED: Final = "too many connections are not authenticated: the oldest of them are closed"


class ConnectionSlots:
    """Bounds on connections: of all listeners of a door together, and of one address.

    maximum: the most connections, strangers among them.  closed: how many strangers were closed for
    others.

    Args:
      overrides: the bounds of some addresses, in their usual form.
      beside: how many strangers a door has in addition to `maximum`; None: an eighth of it, as a
      part of it.
    """

    def __init__(
        self,
        maximum: int,
        maximum_per_address: int = NO_BOUND,
        overrides: Mapping[str, int] = MappingProxyType({}),
        *,
        beside: int | None = None,
    ) -> None:
        self.maximum = maximum
        self.closed = 0
        self._beside = beside
        self._maximum_per_address = maximum_per_address
        self._overrides = overrides
        self._used: Counter[str] = Counter()
        self._freed = trio.Event()
        self._crowd = Crowd()
        self._visitors: dict[int, Visitor] = {}
        self._count = 0
        self._known = 0
        self._said = SaidAgain()

    @property
    def used(self) -> int:
        """How many connections there are."""
        return self._known + len(self._crowd)

    @property
    def strangers(self) -> int:
        """How many connections are strangers."""
        return len(self._crowd)

    @property
    def most_strangers(self) -> int:
        """How many strangers there may be."""
        return max(self.maximum // SHARE, 1) if self._beside is None else self._beside

    @property
    def _free(self) -> int:
        # A caller of enter() that did not wait_free() may have taken more slots than there are.
        return max(self.maximum - self._known, 0)

    @property
    def is_full(self) -> bool:
        """Return whether no connection may be accepted now."""
        return self._beside is None and not self._free

    async def wait_free(self) -> None:
        """Wait until enter() may be called."""
        if self.is_full:
            _log.warning("no more connections are accepted for now", max_connections=self.maximum)
        while self.is_full:
            await self._freed.wait()

    def enter(
        self, host: str, close: Callable[[], None], *, is_known: bool = False
    ) -> Visitor | None:
        """Take a connection in; return None if that address has too many.

        Args:
          close: closes the connection at once; may be called until the visitor leaves.
          is_known: the client is known, so it takes a slot at once.
        """
        maximum = self._maximum_per_address
        if self._overrides:
            maximum = self._overrides.get(_plain(host), maximum)
        if self._used[host] >= maximum:
            return None
        self._used[host] += 1
        self._count += 1
        visitor = Visitor(self, self._count, host, close)
        visitor.is_known = is_known
        self._visitors[visitor.number] = visitor
        if is_known:
            self._known += 1
            self._make_room()
        else:
            self.take_in(visitor)
        return visitor

    def _make_room(self) -> None:
        """Close strangers, as long as there are too many."""
        most = self.most_strangers
        room = most if self._beside is not None else min(most, self._free)
        while (number := self._crowd.next_to_go(room, max(most // 2, 1))) is not None:
            self._crowd.discard(number)
            self._visitors[number].hang_up()
            self.closed += 1
            if self._said.is_due(_CLOSED, trio.current_time()):
                _log.warning(_CLOSED, most=most)

    # -- for visitors -----------------------------------------------------------------------------

    def take_in(self, visitor: Visitor) -> None:
        """Add a stranger, as the newest; close other strangers to make room."""
        self._crowd.add(visitor.number, visitor.source)
        self._make_room()

    def admit(self, visitor: Visitor) -> bool:
        """Give a stranger a slot; return False if there is none, or it is already closed."""
        if self._beside is not None and self._known >= self.maximum:
            return False
        if not self._crowd.discard(visitor.number):
            return False
        self._known += 1
        return True

    def put_out(self, visitor: Visitor) -> bool:
        """Remove a visitor from the crowd; return whether it was in the crowd."""
        return self._crowd.discard(visitor.number)

    def free(self) -> None:
        """Take a slot back."""
        self._known -= 1
        self._freed.set()
        self._freed = trio.Event()

    def forget(self, visitor: Visitor, host: str) -> None:
        """A connection is closed."""
        del self._visitors[visitor.number]
        self._used[host] -= 1
        if not self._used[host]:
            del self._used[host]


class Visitor:
    """One connection at a door.  source: the address of its client."""

    def __init__(
        self, slots: ConnectionSlots, number: int, host: str, close: Callable[[], None]
    ) -> None:
        self.number = number
        self.source = host
        self.is_known = False
        self._slots = slots
        self._host = host
        self._close = close

    def known(self) -> bool:
        """Take a slot, unless the connection has one: its client is known.

        Returns False if no slot is free, or the connection was closed for others.
        """
        if not self.is_known:
            self.is_known = self._slots.admit(self)
        return self.is_known

    def strange(self) -> None:
        """Give the slot back and stay: its client is unknown again."""
        if self.is_known:
            self.is_known = False
            self._slots.free()
            self._slots.take_in(self)

    def comes_from(self, source: str) -> None:
        """Note the client's address, which a proxy says differs from the connection's."""
        self.source = source
        if self._slots.put_out(self):
            self._slots.take_in(self)

    def hang_up(self) -> None:
        """Close the connection at once."""
        self._close()

    def leave(self) -> None:
        """The connection is closed."""
        if self.is_known:
            self.is_known = False
            self._slots.free()
        else:
            self._slots.put_out(self)
        self._slots.forget(self, self._host)


def _plain(host: str) -> str:
    """Return an IPv4 address as such if it is mapped into IPv6, as dual-stack sockets show it."""
    return host.removeprefix(_MAPPED) if "." in host else host
