"""Which version of an API two sides speak.  Pure.

A broker says its versions in ApiVersions, whose answer has a form of its own: a broker that does
not know the version asked for answers in version 0, with UNSUPPORTED_VERSION (KIP-511).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from tidegate_protocol.apis import APIS, ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import api_versions

from ..errors import Unsupported

ANY_VERSION: Final = 32767
_KEYS: Final = {facts.name: ApiKey(key) for key, facts in APIS.items()}


class VersionRange(NamedTuple):
    """The versions from first to last."""

    first: int
    last: int


BrokerVersions = Mapping[int, VersionRange]
"""API key -> what the broker speaks."""


def key_of(name: str) -> ApiKey:
    """Return the key of an API, such as "Fetch"."""
    return _KEYS[name]


@cache
def messages_of(name: str) -> Any:
    """Return the module that reads and writes an API, such as "Fetch"."""
    snake = "".join(f"_{each.lower()}" if each.isupper() else each for each in name)
    return import_module(f"tidegate_protocol.messages.{snake.lstrip('_')}")


def choose_version(
    name: str, broker: BrokerVersions, *, min_version: int = 0, max_version: int = ANY_VERSION
) -> int:
    """Return the highest version that the broker, this client and the caller allow.

    Raises:
      Unsupported: there is no such version.
    """
    facts = APIS[_KEYS[name]]
    theirs = broker.get(facts.key)
    if theirs is None:
        raise Unsupported(f"the broker does not serve {name}.")
    lowest = max(facts.min_version, min_version, theirs.first)
    highest = min(facts.max_version, max_version, theirs.last)
    if lowest > highest:
        ours = VersionRange(
            max(facts.min_version, min_version), min(facts.max_version, max_version)
        )
        raise Unsupported(
            f"the broker serves {name} {theirs.first} to {theirs.last}, and {ours.first} to"
            f" {ours.last} is needed."
        )
    return highest


def read_api_versions(body: memoryview, version: int) -> api_versions.ApiVersionsResponse:
    """Read the answer to ApiVersions of that version.

    Raises:
      RemoteProtocolError: the bytes are no answer.
    """
    is_unknown = bytes(body[:2]) == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
    return api_versions.decode_response(body, 0 if is_unknown else version)


def version_to_ask_again(response: api_versions.ApiVersionsResponse) -> int:
    """Return the version of ApiVersions for a broker that did not know the last one."""
    theirs = broker_versions(response).get(ApiKey.API_VERSIONS)
    return min(theirs.last, APIS[ApiKey.API_VERSIONS].max_version) if theirs else 0


def broker_versions(response: api_versions.ApiVersionsResponse) -> BrokerVersions:
    """Return the versions that an answer names."""
    return {
        each.api_key: VersionRange(each.min_version, each.max_version) for each in response.api_keys
    }
