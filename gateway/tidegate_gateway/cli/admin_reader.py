"""Reads pages of gateways' admin listeners, for commands."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path
from typing import Any, Final, TypeAlias

from tidegate_runtime.addresses import host_port, url_host
from tidegate_runtime.settings_texts import SettingsError

ANSWER_SECONDS: Final = 10.0
MAX_ANSWER_BYTES: Final = 64 << 20
OK: Final = 200
UNAUTHORIZED: Final = 401
DEFAULT_ADMIN: Final = "127.0.0.1:9644"

Place: TypeAlias = tuple[str, int]
"""Host and port."""


class NoAnswer(Exception):
    """A gateway's admin listener gave no report.  The text says why."""


@dataclass(frozen=True, slots=True)
class Access:
    """The options for access to admin pages.

    token_file: holds admin.token; None if not given.  ca_file: certificates to trust, in PEM; None
    for pages without TLS.
    """

    token_file: Path | None = None
    ca_file: Path | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers of a request; raises SettingsError."""
        if self.token_file is None:
            return {}
        try:
            # Headers are sent as Latin-1, which keeps the bytes of the token.
            token = self.token_file.read_bytes().strip().decode("latin-1")
        except OSError as error:
            raise SettingsError(f"--token-file: {error}") from None
        return {"Authorization": f"Bearer {token}"}

    def handlers(self) -> list[urllib.request.BaseHandler]:
        """Return the handlers of a connection; they ignore web proxies that the environment names.

        Raises:
          SettingsError: the certificates cannot be read.
        """
        found: list[urllib.request.BaseHandler] = [
            urllib.request.ProxyHandler({}),
            _AllAnswers(),
        ]
        if self.ca_file is not None:
            try:
                context = ssl.create_default_context(cafile=self.ca_file)
            except OSError as error:
                raise SettingsError(f"--ca-file: {error}") from None
            found.append(urllib.request.HTTPSHandler(context=context))
        return found


class _AllAnswers(urllib.request.HTTPErrorProcessor):
    """Returns each answer, whatever its status; so the token never follows a redirection."""

    def http_response(
        self, request: urllib.request.Request, response: HTTPResponse
    ) -> HTTPResponse:
        return response

    https_response = http_response


def places(admins: Iterable[str]) -> list[Place]:
    """Return the addresses of --admin, each once; raises SettingsError."""
    return list(dict.fromkeys(host_port("--admin", each) for each in admins))


class AdminReader:
    """Reads admin pages.  answer_seconds: the timeout of one read from a gateway.

    Raises:
      SettingsError: a file of `access` cannot be read.
    """

    def __init__(self, access: Access, *, answer_seconds: float = ANSWER_SECONDS) -> None:
        self._answer_seconds = answer_seconds
        self._opener = urllib.request.build_opener(*access.handlers())
        self._opener.addheaders = list(access.headers().items())
        self._scheme = "http" if access.ca_file is None else "https"

    def read(self, place: Place, page: str, *, also: int | None = None) -> bytes:
        """Return a page, such as /v1/zones.

        Args:
          also: a status besides 200 with which the body is returned, too.

        Raises:
          NoAnswer: the gateway did not answer with this page.
        """
        where = _name(place)
        try:
            url = f"{self._scheme}://{where}{page}"
            with self._opener.open(url, timeout=self._answer_seconds) as answer:
                status, found = int(answer.status), bytes(answer.read(MAX_ANSWER_BYTES))
                if answer.length:  # the connection broke, or the page is too long
                    raise IncompleteRead(found, answer.length)
        except (OSError, HTTPException, ValueError) as error:
            raise _no_gateway(where, error) from error
        if status in (OK, also):
            return found
        if status == UNAUTHORIZED:
            raise NoAnswer(f"{where} asks for its admin.token: give --token-file FILE")
        raise NoAnswer(f"{where} answers {status}: the gateway is starting, or it is no gateway")

    def read_json(self, place: Place, page: str) -> Any:
        """Return the JSON value of a page; raises NoAnswer."""
        try:
            return json.loads(self.read(place, page))
        except ValueError as error:
            raise _no_gateway(_name(place), error) from error


def _name(place: Place) -> str:
    return f"{url_host(place[0])}:{place[1]}"


def _no_gateway(where: str, error: Exception) -> NoAnswer:
    return NoAnswer(
        f"no gateway's admin listener answers at {where} ({error}); give --admin the host:port of"
        " its admin.listener"
    )
