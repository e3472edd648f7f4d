"""The head of an encoded state: all of it except the rows of partitions and groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..events.metadata_versions import LEVELS, too_new
from .broken import expect
from .long_values import LongList, LongValue
from .tables import StateTables

# A gateway writes a format that all gateways can load; see events/metadata_versions.py.  Formats 5
# to 14 are format 4 for clusters at a higher metadata.version. 6 has more bits for numbers that
# only rise, and leader epochs; 7 has transactions, 8 links, 9 switches, 10 ACLs, SCRAM credentials
# and client quotas, 11 sealed SCRAM credentials and delegation tokens, 12 the records of
# `__consumer_offsets`, 13 skipped runs that can be brought back, 14 inlined objects. Format 3 has
# no holes, compaction and reports of the pipeline, and keeps rows of objects that were collected;
# format 2 has no segments either.
_READABLE_FORMATS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
_WIDE_FORMAT = 6


def is_wide(state: StateTables) -> bool:
    """Return whether snapshots hold numbers that only rise with all bits; see columns.py."""
    return LEVELS[state.metadata_version].snapshot_format >= _WIDE_FORMAT


def encode_head(state: StateTables, topics: LongList, *, as_copy: bool) -> LongValue:
    """Return the head; topics: frozen.  as_copy: see ClusterState.frozen()."""
    table: dict[str, object] = {
        "format": LEVELS[state.metadata_version].snapshot_format,
        "position": state.position,
        "log_time": state.log_time_ms,
        "expiry_resumes_at": state.expiry_resumes_at_ms,
        "cluster_id": state.cluster_id,
        "timeline": state.timeline,
        "metadata_version": state.metadata_version,
        "timelines": state.timelines.encode(),
        "next_partition": state.partitions.next_number,
        **({"first_epoch": epoch} if (epoch := state.partitions.first_epoch) else {}),
        "gateways": state.gateways.encode(),
        "claims": state.claims.encode(),
        "topics": topics,
        **({"links": state.links.encode()} if state.links else {}),
        **({"switches": state.switches.encode()} if state.switches else {}),
        **({"link_groups": state.link_groups.encode()} if state.link_groups else {}),
        "objects": state.objects.encode(is_wide=is_wide(state)),
        "producer_ids": state.producer_ids.encode(),
        "configs": state.configs.encode(),
        "pipeline": state.pipeline_reports.encode(),
        "proposals": state.proposals.encode(),
        "log_moves": state.log_moves.encode(as_copy=as_copy),
        "static_settings": state.static_settings.encode(),
        **({"next_staged": order} if (order := state.transactions.next_order) else {}),
    }
    return LongValue.of_map(table)


def decode_head(state: StateTables, table: Mapping[str, Any]) -> None:
    """Fill an empty state, except its metadata.version, from encode_head()'s answer.

    Raises:
      StateBroken: the snapshot has a format that this release no longer reads.
      ReleaseTooOld: a newer release wrote it, in a format that this release does not know.
    """
    found = table.get("format")
    if isinstance(found, int) and found > _READABLE_FORMATS[-1]:
        raise too_new(found, _READABLE_FORMATS[-1])
    expect(
        found in _READABLE_FORMATS,
        f"snapshot of format {found}; this release reads {_READABLE_FORMATS}",
    )
    state.position = table["position"]
    state.log_time_ms = table["log_time"]
    state.expiry_resumes_at_ms = table["expiry_resumes_at"]
    state.cluster_id = table["cluster_id"]
    state.timeline = table["timeline"]
    state.timelines.decode(table["timelines"])
    state.partitions.next_number = table["next_partition"]
    state.partitions.first_epoch = table.get("first_epoch", 0)
    state.gateways.decode(table["gateways"])
    state.claims.decode(table["claims"])
    state.topics.decode(table["topics"])
    state.links.decode(table.get("links", ()))
    state.switches.decode(table.get("switches", {}))
    state.link_groups.decode(table.get("link_groups", {}))
    state.objects.decode(table["objects"], is_wide=table["format"] >= _WIDE_FORMAT)
    state.producer_ids.decode(table["producer_ids"])
    state.configs.decode(table["configs"])
    state.pipeline_reports.decode(table.get("pipeline", []))
    state.proposals.decode(table.get("proposals", []))
    state.log_moves.decode(table.get("log_moves", {}))
    state.static_settings.decode(table.get("static_settings", []))
    state.transactions.next_order = table.get("next_staged", 0)
