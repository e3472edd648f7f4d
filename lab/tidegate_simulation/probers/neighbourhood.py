"""Checks from outside that no live gateway is absent in another gateway's view for long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import trio

from ..world.node import Node

# A probe starts each second, and lasts up to three; in a slow network one or two may fail.
FORGIVE_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.25


def is_absent(incarnation: int, nodes: Iterable[Node]) -> bool:
    """Return whether some gateway counts an incarnation as absent."""
    return any(incarnation in absent_of(each) for each in nodes)


def absent_of(node: Node) -> frozenset[int]:
    """Return the incarnations that the gateway of a machine counts as absent."""
    gateway = node.gateway
    return gateway.absent if gateway is not None else frozenset()


async def wrongly_absent(nodes: Sequence[Node]) -> str:
    """Wait, without faults, until no live gateway is absent; return those that still are.

    A hanging call to the log counts as a fault until it ends, because it cuts its gateway off.
    """
    while any(each.is_log_hung for each in nodes):  # noqa: ASYNC110 - they end by themselves
        await trio.sleep(_LOOK_SECONDS)
    with trio.move_on_after(FORGIVE_SECONDS):
        while _said(nodes):  # noqa: ASYNC110 - they change one by one
            await trio.sleep(_LOOK_SECONDS)
    return _said(nodes)


def _said(nodes: Sequence[Node]) -> str:
    living = {
        each.gateway.coordinator.incarnation: each.name
        for each in nodes
        if each.gateway is not None
    }
    return ", ".join(
        f"{living[incarnation]} by {each.name}"
        for each in nodes
        for incarnation in sorted(absent_of(each) & living.keys())
    )
