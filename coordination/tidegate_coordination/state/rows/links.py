"""Rows of the events of links, switches and moved groups; see event_rows.py."""

from __future__ import annotations

from typing import Final

from ...events import links as kev
from ..changes import LINK_GROUPS, LINKS, NAME_CHANGES, OBJECTS, PARTITIONS, SWITCHES, TOPICS
from .row import Row

_RUNS: Final = PARTITIONS | OBJECTS
_TOPIC: Final = TOPICS | NAME_CHANGES | PARTITIONS
LINK_ROWS: Final = (
    Row(kev.LinkSet, lambda f: f.mirrors.fold_set, LINKS | SWITCHES),
    Row(
        kev.LinkRemoved,
        lambda f: f.mirrors.fold_removed,
        LINKS | SWITCHES | LINK_GROUPS,
        lambda t: t.link_removed,
    ),
    Row(kev.TopicsLinked, lambda f: f.mirrors.fold_linked, _TOPIC, lambda t: t.topics_linked),
    Row(kev.MirrorsPlaced, lambda f: f.mirrors.fold_placed, _RUNS, lambda t: t.runs.mirrors_placed),
    Row(
        kev.RunsMirrored,
        lambda f: f.mirrors.fold_mirrored,
        TOPICS | PARTITIONS,
        lambda t: t.runs.mirrored,
    ),
    Row(
        kev.TopicsFenced,
        lambda f: f.mirrors.fold_fenced,
        SWITCHES | LINK_GROUPS,
        lambda t: t.switches.topics_fenced,
    ),
    Row(
        kev.FenceReached,
        lambda f: f.state.switches.fold_reached,
        SWITCHES,
        lambda t: t.switches.fence_reached,
    ),
    Row(
        kev.FenceLifted,
        lambda f: f.mirrors.fold_lifted,
        SWITCHES | _TOPIC,
        lambda t: t.switches.fence_lifted,
    ),
    Row(
        kev.SourceReopened,
        lambda f: f.mirrors.fold_reopened,
        SWITCHES,
        lambda t: t.switches.source_reopened,
    ),
    Row(
        kev.TopicsSwitched,
        lambda f: f.mirrors.fold_switched,
        SWITCHES | _TOPIC,
        lambda t: t.switches.topics_switched,
    ),
    Row(
        kev.SwitchesFinished,
        lambda f: f.state.switches.fold_finished,
        SWITCHES,
        lambda t: t.switches.switches_finished,
    ),
    Row(
        kev.TopicsReversing,
        lambda f: f.state.switches.fold_reversing,
        SWITCHES,
        lambda t: t.switches.topics_reversing,
    ),
    Row(
        kev.ReverseReached,
        lambda f: f.mirrors.fold_reverse_reached,
        SWITCHES,
        lambda t: t.switches.reverse_reached,
    ),
    Row(
        kev.ReverseEnded,
        lambda f: f.state.switches.fold_reverse_ended,
        SWITCHES,
        lambda t: t.switches.reverse_ended,
    ),
    Row(
        kev.ReturnFenced,
        lambda f: f.mirrors.fold_return_fenced,
        SWITCHES | _TOPIC,
        lambda t: t.switches.return_fenced,
    ),
    Row(
        kev.TopicsReturned,
        lambda f: f.mirrors.fold_returned,
        SWITCHES | TOPICS | PARTITIONS,
        lambda t: t.switches.topics_returned,
    ),
    Row(
        kev.GroupsFenced,
        lambda f: f.mirrors.fold_groups_fenced,
        LINK_GROUPS,
        lambda t: t.switches.groups.fenced,
    ),
    Row(
        kev.GroupFenceReached,
        lambda f: f.state.link_groups.fold_reached,
        LINK_GROUPS,
        lambda t: t.switches.groups.reached,
    ),
    Row(
        kev.GroupsUnfenced,
        lambda f: f.state.link_groups.fold_unfenced,
        LINK_GROUPS,
        lambda t: t.switches.groups.ended,
    ),
    Row(
        kev.GroupsMoved,
        lambda f: f.state.link_groups.fold_moved,
        LINK_GROUPS,
        lambda t: t.switches.groups.ended,
    ),
)
