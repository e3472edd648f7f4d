"""The formats that gateways may write, by the cluster's metadata.version, which only rises.

A release can read a new format before any release writes it.  While gateways are replaced one by
one, all of them write the formats that the oldest one reads.  Once all gateways read the next
version, an operator raises the cluster to it; the entry that raises it is the last one of the
former version. See decision 18.

A release that adds a format adds a row here.  Each event names the level that it needs (`level`),
and so does a field that was added later (`Since`, fields.py).  New values in the answers of rules
need a level like events: a gateway that proposed through another one, or that finds the answer in
the log, may be of an older release; see DUPLICATES_TOLD.
"""

from __future__ import annotations

from typing import Final, NamedTuple

FEATURE_NAME: Final = "tidegate.metadata.version"
"""As Kafka's tools show it.  Kafka's own `metadata.version` counts other things."""


class Level(NamedTuple):
    """The formats of a metadata.version; see entries.py and state/snapshot_head.py.

    brings: what the level adds, for people.
    """

    entry_format: int
    snapshot_format: int
    brings: str


LEVELS: Final = {
    1: Level(1, 4, "everything up to release 0.1"),
    2: Level(
        2,
        5,
        "a checksum in each entry of the metadata log; repeats of old batches are recognised",
    ),
    3: Level(
        2,
        6,
        "leader epochs; more bits for numbers that rise for ever; producer ids of a cluster's own;"
        " static settings are the cluster's",
    ),
    4: Level(2, 7, "transactions"),
    5: Level(2, 8, "links to a classic Kafka cluster"),
    6: Level(2, 9, "mirrored topics can be switched from their source to this cluster"),
    7: Level(2, 10, "security: ACLs, SCRAM credentials and client quotas"),
    8: Level(
        2,
        11,
        "SCRAM credentials can be sealed with metadata.secret.key; delegation tokens",
    ),
    9: Level(2, 12, "group offsets can be read from __consumer_offsets"),
    10: Level(2, 12, "runs say whether their time stamps are those of their records"),
    11: Level(2, 13, "ranges that `topic repair` skipped can be brought back"),
    12: Level(2, 14, "small writes travel in the metadata log until they are moved to the store"),
}
FIRST: Final = 1
NEWEST: Final = max(LEVELS)
EPOCHS: Final = 3
"""From here on partitions have a history of leader epochs; see decision 25."""
WIDE_NUMBERS: Final = 3
"""From here on objects have 40 bits, and WAL ids 64; below they have 32 each."""
OWN_PRODUCER_IDS: Final = 3
"""From here on new clusters have producer ids of their own; see state/producer_ids.py."""
TENANTS: Final = NEWEST + 1
"""From here on a name may be of another tenant than 0, and a mirrored topic may be stored under
another id than its source's: two tenants may mirror one source.

No release has it yet.  A release with one table of names would fold the names of all tenants into
it, so the level must be above all that such a release reads: the release that brings tenants makes
it a row.
"""
TRANSACTIONS: Final = 4
"""From here on the cluster has transactions, and gateways tell clients transaction.version 2."""
LINKS: Final = 5
"""From here on the cluster can mirror topics of another one."""
SWITCHES: Final = 6
"""From here on topics can be switched from their source to this cluster."""
SECURITY: Final = 7
"""From here on the cluster keeps ACLs, SCRAM credentials and client quotas."""
SEALS: Final = 8
"""From here on gateways may seal SCRAM credentials."""
DELEGATION_TOKENS: Final = 8
"""From here on the cluster keeps delegation tokens."""
OFFSETS_TOPIC_FILLED: Final = 9
"""From here on `__consumer_offsets` has the records of groups; see decision 38."""
WALKED_TIMES: Final = 10
"""From here on runs may have the flag RUN_WALKED; see decision 42."""
KEPT_SKIPS: Final = 11
"""From here on skipped runs are kept until their topic loses them otherwise; see decision 9."""
INLINED: Final = 12
"""From here on the bytes of small writes may travel in the log's entries; see decision 49."""
DUPLICATES_TOLD: Final = 2
"""From here on an old repeat is answered as one; see decision 17."""
SETTINGS_TOLD: Final = 3
"""From this version on, gateways write their static settings to the log; see decision 23."""


class ReleaseTooOld(Exception):
    """The cluster uses a metadata.version that this release cannot read.

    Stop, and run a newer release.  The other gateways could not use entries of this release.
    """


def too_old(version: int, highest: int) -> ReleaseTooOld:
    """Return the error of a release that reads up to `highest` where the cluster has `version`."""
    return ReleaseTooOld(
        f"the cluster is at {FEATURE_NAME} {version}, and this release of Tidegate reads up to"
        f" {highest}. Run the release that the other gateways run, or a newer one; there is no way"
        " back to a lower version"
    )


def too_new(found: int, newest: int) -> ReleaseTooOld:
    """Return the error of a release that meets a snapshot of an unknown format."""
    return ReleaseTooOld(
        f"the snapshot of the cluster's state has format {found}, and this release of Tidegate"
        f" reads up to {newest}. Run the release that wrote it, or a newer one"
    )


def entry_formats(version: int, highest: int = NEWEST) -> range:
    """Return the formats of an entry after which the cluster has `version`.

    This release may know more formats: an entry with an older format counts as damaged.
    """
    return range(LEVELS[version].entry_format, LEVELS[highest].entry_format + 1)
