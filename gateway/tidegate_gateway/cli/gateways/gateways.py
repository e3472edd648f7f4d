"""`tidegate gateway list`, `drain` and `undrain`, from any machine that reaches the metadata log.

A mark in the log reaches every gateway, even one whose admin listener does not answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.consumer_groups.groups import GROUP_CLAIMS
from tidegate_coordination.rules.draining import DrainGateway, Marked, ResumeGateway
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.writers.gateways import Gateway
from tidegate_runtime.addresses import url_host
from tidegate_runtime.settings_texts import BadSource

from ..existing_cluster import NOT_DONE, ClusterOptions, opened_cluster, run_told
from ..output.table import aligned

LOOK_SECONDS: Final = 0.2
_HEADS: Final = ("ID", "ZONE", "ADDRESS", "VERSION", "STATE", "GROUPS")


@dataclass(frozen=True, slots=True)
class DrainOptions:
    """The options as typed.  timeout_seconds: of the wait for the drain; 0 for no wait."""

    node_id: int
    stops: bool
    timeout_seconds: int


@dataclass(frozen=True, slots=True)
class Row:
    """One gateway.  state: serving, draining or drained.  groups: how many it serves."""

    node_id: int
    zone: str
    addresses: list[str]
    version: str
    state: str
    groups: int


def say_now(text: str) -> None:
    """Print a text and flush, so that a reader of a pipe gets it at once."""
    print(text, flush=True)


def run_list(cluster: ClusterOptions, *, as_json: bool) -> int:
    """Print all gateways; return the exit code."""

    async def work() -> int:
        async with opened_cluster(cluster) as coordinator:
            rows = rows_of(coordinator.state)
        print(json.dumps([asdict(each) for each in rows]) if as_json else text_of(rows))
        return 0

    return run_told(work)


def run_drain(cluster: ClusterOptions, options: DrainOptions) -> int:
    """Mark a gateway, and wait until it is drained; return the exit code."""

    return run_told(lambda: drain(cluster, options))


async def drain(
    cluster: ClusterOptions,
    options: DrainOptions,
    say: Callable[[str], None] = say_now,
    on_over: Callable[[], None] = lambda: None,
) -> int:
    """Mark a gateway, and wait until it is drained; return the exit code.

    Args:
      say: called with each line for a person.
      on_over: called when the gateway is drained, before the command prints this.

    Raises:
      Exception: see refusals_to_start.py.
    """
    async with opened_cluster(cluster) as coordinator:
        return await _drain(coordinator, options, say, on_over)


def run_undrain(cluster: ClusterOptions, node_id: int) -> int:
    """Let a gateway take new work again; return the exit code."""

    return run_told(lambda: undrain(cluster, node_id))


async def undrain(
    cluster: ClusterOptions, node_id: int, say: Callable[[str], None] = say_now
) -> int:
    """Let a gateway take new work again; return the exit code.

    Raises:
      Exception: see refusals_to_start.py.
    """
    async with opened_cluster(cluster) as coordinator:
        marked = await coordinator.propose(ResumeGateway(node_id))
        _check_known(coordinator.state, node_id, marked)
    was = "takes new work again" if marked is Marked.DONE else "was not draining"
    say(f"gateway {node_id} {was}")
    return 0


async def _drain(
    coordinator: Coordinator,
    options: DrainOptions,
    say: Callable[[str], None],
    on_over: Callable[[], None],
) -> int:
    state, node_id = coordinator.state, options.node_id
    marked = await coordinator.propose(DrainGateway(node_id, options.stops))
    _check_known(state, node_id, marked)
    say(f"gateway {node_id} is draining")
    gateway = state.gateways.by_node_id(node_id)
    if gateway is None or not options.timeout_seconds:
        return 0
    if not options.stops and not state.gateways.sends_away(gateway.incarnation):
        say(f"No other gateway takes new work, so gateway {node_id} serves until one does.")
        return NOT_DONE
    with trio.move_on_after(options.timeout_seconds):
        await _over(state, gateway.incarnation, stops=options.stops)
        on_over()
        end = "has stopped" if options.stops else "is drained and may be stopped"
        say(f"gateway {node_id} {end}")
        return 0
    left = len(state.claims.held_by(gateway.incarnation, GROUP_CLAIMS))
    say(
        f"gateway {node_id} is not drained after {options.timeout_seconds} s: {left} groups and"
        " perhaps clients are left; it continues to drain"
    )
    return NOT_DONE


async def _over(state: ClusterState, incarnation: int, *, stops: bool) -> None:
    while True:
        gateway = state.gateways.live.get(incarnation)
        if gateway is None or (gateway.is_drained and not stops):
            return
        await trio.sleep(LOOK_SECONDS)


def _check_known(state: ClusterState, node_id: int, marked: Marked) -> None:
    if marked is not Marked.UNKNOWN:
        return
    known = ", ".join(str(each.node_id) for each in state.gateways.brokers())
    there = f"there are {known}" if known else "none is running"
    raise BadSource(f"no gateway has the id {node_id}: {there}; see `tidegate gateway list`")


def rows_of(state: ClusterState) -> list[Row]:
    """Return all gateways, by node id."""
    return [
        Row(
            each.node_id,
            each.zone,
            [f"{point.listener}://{url_host(point.host)}:{point.port}" for point in each.endpoints],
            each.software_version,
            _state_of(each),
            len(state.claims.held_by(each.incarnation, GROUP_CLAIMS)),
        )
        for each in state.gateways.brokers()
    ]


def _state_of(gateway: Gateway) -> str:
    if not gateway.draining:
        return "serving"
    return "drained" if gateway.is_drained else "draining"


def text_of(rows: Sequence[Row]) -> str:
    """Return a table for a person."""
    if not rows:
        return "No gateway is running."
    cells = [
        _HEADS,
        *(
            (
                str(each.node_id),
                each.zone,
                ",".join(each.addresses),
                each.version,
                each.state,
                str(each.groups),
            )
            for each in rows
        ),
    ]
    return "\n".join(aligned(cells))
