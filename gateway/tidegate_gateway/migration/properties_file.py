"""The client properties of a link, in a file that an operator may change.

A changed file takes effect at the link's next start.  The link restarts by itself if the file has
changed and the source refuses the login, for example after a change of the password or the end of a
delegation token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import trio

from tidegate_coordination.client.errors import BrokerUnreachable, ClassicError
from tidegate_coordination.client.properties.client import ClientProperties, read_client_properties
from tidegate_coordination.state.migration.links import Link

from ..work.blocking import Blocking

LOOK_SECONDS: Final = 2.0


class PropertiesFile:
    """See the module's head.  path: None for a link without a file."""

    def __init__(self, link: Link, path: Path | None, blocking: Blocking) -> None:
        self._link = link
        self._path = path
        self._blocking = blocking

    async def read(self) -> ClientProperties:
        """Return the client's properties, with the bootstrap servers of the link.

        Raises:
          BadProperties, OSError, UnicodeError: the gateway's file for the link is wrong.
        """
        servers = f"bootstrap.servers={self._link.bootstrap_servers}\n"
        plain = read_client_properties(servers, f"link {self._link.name}")
        path = self._path
        if path is None:
            return plain
        text = await self._blocking.run(lambda: path.read_text(encoding="utf-8"))
        found = read_client_properties(servers + text, str(path))
        return replace(found, bootstrap_servers=plain.bootstrap_servers)

    async def watch(self, used: ClientProperties, is_refused: Callable[[], bool]) -> None:
        """Wait until the login is refused, and the file's properties differ from those in use.

        Args:
          is_refused: returns whether the last login was refused.

        Raises:
          BrokerUnreachable: this is now the case.
        """
        while self._path is not None:
            await trio.sleep(LOOK_SECONDS)
            if is_refused() and await self._differs(used):
                raise BrokerUnreachable(f"{self._path} has changed: the link starts anew.")

    async def _differs(self, used: ClientProperties) -> bool:
        """Return whether the file is valid and differs; an invalid file may be half written."""
        try:
            return await self.read() != used
        except (ClassicError, OSError, UnicodeError):
            return False
