"""Shared parts of the commands that carry ACLs, quotas and users over from a source."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.opened_source import opened_source
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.migration.links import Link
from tidegate_runtime.settings_texts import BadSource

from ...migration.carry.authorizer_here import has_authorizer
from ...migration.carry.source_security import NotShown
from ..asking import agreed, check_json
from ..existing_cluster import ClusterOptions, opened_cluster
from .commands import known_link

ASK_SECONDS: Final = 3.0
"""For the gateways to say whether they have an authorizer."""
ASK_ONE_SECONDS: Final = 1.0
"""For one of them: if it hangs, another may answer."""
NO_AUTHORIZER_HERE: Final = (
    "The gateways have no authorizer, so ACLs do nothing here: set authorizer.class.name as at the"
    " source, on all of them."
)
AUTHORIZER_ONLY_HERE: Final = (
    "They have one, and the source has none: give clients rights here with kafka-acls.sh, or they"
    " may do nothing."
)
CHANGED_MEANWHILE: Final = (
    "What differs has changed since it was shown, so nothing was done: run the command again."
)
_OPEN_LISTENER: Final = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class CarryOptions:
    """The options as typed.  prunes: remove entries that only this cluster has.  is_trial: change
    nothing.
    """

    name: str
    client_properties: Path | None
    prunes: bool
    is_trial: bool
    yes: bool

    def check_json(self, *, as_json: bool) -> None:
        """Check that a command that prints JSON needs no confirmation.

        Raises:
          BadSource: the command needs a confirmation.
        """
        asks = not (self.yes or self.is_trial)
        check_json(as_json=as_json, asks=asks, instead="--yes or --dry-run")


@asynccontextmanager
async def both_sides(
    cluster: ClusterOptions, name: str, file: Path | None
) -> AsyncGenerator[tuple[Coordinator, Link, ClassicCluster], None]:
    """Open this cluster and the source of a link; the state is up to date with the log's end.

    Raises:
      BadSource: there is no such link, or the source does not answer or show what is asked for.
      Exception: see opened_cluster().
    """
    async with opened_cluster(cluster) as coordinator:
        link = known_link(coordinator.state, name)
        async with opened_source(link.bootstrap_servers, file) as source:
            await coordinator.catch_up()
            try:
                yield coordinator, link, source
            except NotShown as error:
                raise BadSource(str(error)) from None


async def authorizer_here(state: ClusterState) -> bool | None:
    """Return whether a gateway has an authorizer; None if no plaintext listener answers in time."""
    with trio.move_on_after(ASK_SECONDS):
        for address in _open_addresses(state):
            with trio.move_on_after(ASK_ONE_SECONDS):
                found = await _asked(address)
                if found is not None:
                    return found
    return None


def _open_addresses(state: ClusterState) -> Iterator[str]:
    for gateway in state.gateways.brokers():
        for endpoint in gateway.endpoints:
            if endpoint.listener.upper() == _OPEN_LISTENER:
                yield f"{endpoint.host}:{endpoint.port}"


async def _asked(address: str) -> bool | None:
    try:
        async with opened_source(address, None) as gateway:
            return await has_authorizer(gateway)
    except BadSource:
        return None


async def agreed_to_all(
    question: str, is_as_shown: Callable[[], Awaitable[bool]], *, yes: bool
) -> bool:
    """Return whether the person agrees, and the shown differences are still the same afterwards.

    A person may take hours to answer.  is_as_shown: returns whether a new look shows the same.
    """
    if yes:
        return True
    if not await agreed(question, yes=False):
        return False
    if await is_as_shown():
        return True
    print(CHANGED_MEANWHILE)
    return False
