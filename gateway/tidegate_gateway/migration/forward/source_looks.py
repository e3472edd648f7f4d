"""Asks sources for the leaders of topics, once for all waiting produce requests."""

from __future__ import annotations

from typing import Final

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import ClassicError

LOOK_SECONDS: Final = 5.0
AGAIN_SECONDS: Final = 0.2
"""A source is asked no sooner again."""


class _Look:
    """The next Metadata request to a source."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.is_over = trio.Event()


class SourceLooks:
    """See the module's head.  nursery: for the tasks that ask."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._looks: dict[ClassicCluster, _Look] = {}

    def ask(self, cluster: ClassicCluster, topic: str) -> trio.Event:
        """Request a topic's metadata; the event is set after the answer, or after a failure.

        After an answer, `cluster` has the metadata.
        """
        look = self._looks.get(cluster)
        if look is None:
            look = self._looks[cluster] = _Look()
            self._nursery.start_soon(self._run, cluster)
        look.names.add(topic)
        return look.is_over

    async def _run(self, cluster: ClassicCluster) -> None:
        while (look := self._looks[cluster]).names:
            self._looks[cluster] = _Look()
            with trio.move_on_after(LOOK_SECONDS):
                await _refresh(cluster, look.names)
            look.is_over.set()
            await trio.sleep(AGAIN_SECONDS)
        del self._looks[cluster]


async def _refresh(cluster: ClassicCluster, names: set[str]) -> None:
    try:
        await cluster.refresh(names)
    except ClassicError:
        return  # the link's own task logs the error
