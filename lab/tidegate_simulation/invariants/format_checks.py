"""Every live gateway can read each entry and each snapshot."""

from __future__ import annotations

from collections.abc import Callable

from tidegate_coordination.events.entries import Entry
from tidegate_coordination.events.gates import allowed_to, needed_for
from tidegate_coordination.events.metadata_versions import LEVELS
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.frozen import split


class FormatWatch:
    """See the module's head.

    state: the watch's replica.  complain: called with the kind and the text of a violation.
    """

    def __init__(self, state: ClusterState, complain: Callable[[str, str], None]) -> None:
        self._state = state
        self._complain = complain
        self._versions: dict[int, int] = {}

    def before(self, position: int, entry: Entry) -> None:
        """Check the format of an entry: the cluster's metadata.version, or the one that it sets."""
        present = self._state.metadata_version
        expected = LEVELS[present].entry_format
        if entry.format != expected:
            text = f"entry {position} has format {entry.format} and should have {expected}"
            self._complain("wrong format", text)
        needed, allowed = needed_for(entry.events), allowed_to(entry.events, present)
        if needed > allowed:
            text = f"entry {position} needs metadata.version {needed}, and may use {allowed}"
            self._complain("above its level", text)

    def after_entry(self) -> None:
        """Check that every live gateway can read the entries from here on."""
        state = self._state
        version = self._versions[state.position] = state.metadata_version
        for each in state.gateways.live.values():
            if each.highest_version < version:
                text = f"incarnation {each.incarnation} reads up to {each.highest_version}"
                self._complain("left behind", f"entry {state.position}: {text}")

    def snapshot(self, position: int, data: bytes) -> None:
        """Check that all gateways that were live at its position can load a snapshot."""
        head: dict[str, int] = next(split(data))
        expected = LEVELS[self._versions[position]].snapshot_format
        if head["format"] != expected:
            text = f"the snapshot at {position} has {head['format']} and should have {expected}"
            self._complain("wrong format", text)
