"""The connections to the brokers of one cluster: one for each broker and name."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import trio

from ..errors import BrokerUnreachable, ClassicError
from ..login.logins import Logins
from ..properties.client import Address, ClientProperties
from .connection import DEFAULT_MAX_ANSWER_BYTES, BrokerConnection, open_connection
from .dialling import Dial

# The bound for all connections of a cluster together; a link needs a few for each broker.
MAX_CONNECTIONS: Final = 1000

_Key = tuple[Address, str]


class _Opening:
    """A connection that one caller opens, and others wait for."""

    def __init__(self) -> None:
        self.is_over = trio.Event()
        self.failure: ClassicError | None = None


class ConnectionPool:
    """Opens connections when they are asked for, and again after they closed.

    nursery: owns the tasks of all connections.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        dial: Dial,
        properties: ClientProperties,
        *,
        logins: Logins,
        max_answer_bytes: int = DEFAULT_MAX_ANSWER_BYTES,
    ) -> None:
        self.is_closed = False
        self._nursery = nursery
        self._dial = dial
        self._properties = properties
        self._logins = logins
        self._max_answer_bytes = max_answer_bytes
        self._connections: dict[_Key, BrokerConnection] = {}
        self._opening: dict[_Key, _Opening] = {}

    def is_connected(self, address: Address) -> bool:
        """Return whether the broker's connection without a name is open."""
        found = self._connections.get((address, ""))
        return found is not None and found.is_open

    async def get(self, address: Address, name: str = "") -> BrokerConnection:
        """Return the open connection of that name; open it if there is none.

        Raises:
          ClassicError: see open_connection.
        """
        key = (address, name)
        while True:
            found = self._usable(key)
            if found is not None:
                return found
            opening = self._opening.get(key)
            if opening is None:
                return await self._open(key)
            await opening.is_over.wait()
            # Otherwise the waiting callers would each wait for a set-up timeout, one after another.
            if opening.failure is not None:
                raise opening.failure

    def _usable(self, key: _Key) -> BrokerConnection | None:
        found = self._connections.get(key)
        if found is None or (found.is_open and not found.is_expiring):
            return found
        del self._connections[key]
        found.retire()
        return None

    async def _open(self, key: _Key) -> BrokerConnection:
        self._make_room()
        opening = self._opening[key] = _Opening()
        try:
            opened = await open_connection(
                self._nursery,
                self._dial,
                key[0],
                self._properties,
                logins=self._logins,
                max_answer_bytes=self._max_answer_bytes,
            )
        except ClassicError as error:
            opening.failure = error
            raise
        finally:
            del self._opening[key]
            opening.is_over.set()
        if self.is_closed:
            opened.close()
        self._connections[key] = opened
        return opened

    def _make_room(self) -> None:
        if self.is_closed:
            raise BrokerUnreachable("the client of this cluster is closed.")
        if len(self._connections) + len(self._opening) < MAX_CONNECTIONS:
            return
        for key in [key for key, each in self._connections.items() if not each.is_open]:
            del self._connections[key]
        if len(self._connections) + len(self._opening) >= MAX_CONNECTIONS:
            raise BrokerUnreachable(f"{MAX_CONNECTIONS} connections to the cluster are open.")

    def retire_all_but(self, addresses: Collection[Address]) -> None:
        """Retire the connections to other addresses."""
        for key in [each for each in self._connections if each[0] not in addresses]:
            self._connections.pop(key).retire()

    async def aclose(self) -> None:
        """Close all connections, and open no more; calls under way fail."""
        self.is_closed = True
        while self._connections:
            _, connection = self._connections.popitem()
            await connection.aclose()
