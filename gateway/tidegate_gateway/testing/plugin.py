"""A plug-in of pytest: the fixtures `tidegate` and `tidegate_topic` (docs/testing.md).

pytest loads it wherever Tidegate is installed.  So it loads nothing else until a test asks for a
fixture.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import pytest

SETTINGS: Final = "tidegate_settings"
MARKER: Final = "tidegate_topic"
# Kafka's limit is 249 characters; the difference is for the number at the end.
MAX_NAME: Final = 200
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9._-]+")


@dataclass(frozen=True)
class Tidegate:
    """A gateway that runs as long as the test session.

    bootstrap: the clients' bootstrap.servers, such as "127.0.0.1:40123".
    """

    bootstrap: str
    _numbers: count[int] = field(default_factory=lambda: count(1), repr=False)

    def create_topic(
        self, name: str, partitions: int = -1, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic; partitions: -1 for the number in the setting num.partitions.

        Raises:
          TopicRefused: the gateway does not create it.
        """
        from .topics import create_topic

        create_topic(self.bootstrap, name, partitions, configs)

    def fresh_name(self, wish: str) -> str:
        """Return a topic name that no other call returns; wish: a text that it resembles."""
        return f"{_NOT_IN_NAMES.sub('-', wish)[:MAX_NAME].strip('-')}-{next(self._numbers)}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the entry of pytest's configuration file."""
    text = "Settings of the gateway of the fixture tidegate: NAME=VALUE, one on a line."
    parser.addini(SETTINGS, text, type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    """Add the marker."""
    line = f"{MARKER}(partitions, configs): how the topic of the fixture {MARKER} is created."
    config.addinivalue_line("markers", line)


@pytest.fixture(scope="session")
def tidegate_settings(pytestconfig: pytest.Config) -> Mapping[str, str]:
    """Return the gateway's settings, from pytest's configuration file.

    A conftest.py may define another fixture of this name.
    """
    lines: list[str] = pytestconfig.getini(SETTINGS)
    pairs = [line.partition("=") for line in lines]
    for line, (_, equals, _) in zip(lines, pairs, strict=True):
        if not equals:
            raise pytest.UsageError(f"{SETTINGS}: {line!r} is not NAME=VALUE")
    return {name.strip(): value.strip() for name, _, value in pairs}


@pytest.fixture(scope="session")
def tidegate(tidegate_settings: Mapping[str, str]) -> Generator[Tidegate]:
    """A gateway of this session, in memory; with pytest-xdist each worker has its own."""
    from .running import running_gateway

    with running_gateway(tidegate_settings) as bootstrap:
        yield Tidegate(bootstrap)


@pytest.fixture
def tidegate_topic(request: pytest.FixtureRequest, tidegate: Tidegate) -> str:
    """The name of a topic for this test alone, which exists and is empty.

    `@pytest.mark.tidegate_topic(partitions=3)` sets its number of partitions, and configs={...} its
    configs.
    """
    name = tidegate.fresh_name(request.node.name)
    marker = request.node.get_closest_marker(MARKER)
    how = marker or pytest.mark.tidegate_topic.mark
    tidegate.create_topic(name, *how.args, **how.kwargs)
    return name
