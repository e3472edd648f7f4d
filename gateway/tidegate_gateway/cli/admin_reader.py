"""Reads pages of gateways' admin listeners, for commands."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Final, TypeAlias

from tidegate_runtime.addresses import host_port, url_host
from tidegate_runtime.settings_texts import SettingsError

ANSWER_SECONDS: Final = 10.0
MAX_ANSWER_BYTES: Final = 64 << 20
UNAUTHORIZED: Final = 401
DEFAULT_ADMIN: Final = "127.0.0.1:9644"

Place: TypeAlias = tuple[str, int]
"""Host and port."""


class NoAnswer(Exception):
    """A gateway's admin listener gave no report.  The text says why."""


@dataclass(frozen=True, slots=True)
class Access:
    """What opens the pages.  token_file: holds admin.token; None for none.  ca_file: certificates
    to trust, in PEM; None for pages without TLS.
    """

    token_file: Path | None = None
    ca_file: Path | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers of a request; raises SettingsError."""
        if self.token_file is None:
            return {}
        try:
            # Headers go as Latin-1, whatever their bytes mean.
            token = self.token_file.read_bytes().strip().decode("latin-1")
        except OSError as error:
            raise SettingsError(f"--token-file: {error}") from None
        return {"Authorization": f"Bearer {token}"}

    def handlers(self) -> list[urllib.request.BaseHandler]:
        """Return how to connect: without the web proxy that the environment may name.

        Raises:
          SettingsError: the certificates cannot be read.
        """
        found: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self.ca_file is not None:
            try:
                context = ssl.create_default_context(cafile=self.ca_file)
            except OSError as error:
                raise SettingsError(f"--ca-file: {error}") from None
            found.append(urllib.request.HTTPSHandler(context=context))
        return found


def places(admins: Iterable[str]) -> list[Place]:
    """Return the addresses of --admin, each once; raises SettingsError."""
    return list(dict.fromkeys(host_port("--admin", each) for each in admins))


class AdminReader:
    """Reads pages.

    Raises:
      SettingsError: a file of `access` cannot be read.
    """

    def __init__(self, access: Access) -> None:
        self._opener = urllib.request.build_opener(*access.handlers())
        self._opener.addheaders = list(access.headers().items())
        self._scheme = "http" if access.ca_file is None else "https"

    def read(self, place: Place, page: str, *, also: int | None = None) -> bytes:
        """Return a page, such as /v1/zones.

        Args:
          also: a status, beside 200, whose text is a page, too.

        Raises:
          NoAnswer: there is none.
        """
        where = f"{url_host(place[0])}:{place[1]}"
        try:
            with self._opener.open(
                f"{self._scheme}://{where}{page}", timeout=ANSWER_SECONDS
            ) as answer:
                found: bytes = answer.read(MAX_ANSWER_BYTES)
                return found
        except urllib.error.HTTPError as error:
            with error:
                if error.code == also:
                    return error.read(MAX_ANSWER_BYTES)
                if error.code == UNAUTHORIZED:
                    raise NoAnswer(
                        f"{where} asks for its admin.token: give --token-file FILE"
                    ) from None
                raise NoAnswer(
                    f"{where} answers {error.code}: the gateway is starting, or it is no gateway"
                ) from None
        except (OSError, HTTPException, ValueError) as error:
            raise NoAnswer(
                f"no gateway's admin listener answers at {where} ({error}); give --admin the"
                " host:port of its admin.listener"
            ) from error
