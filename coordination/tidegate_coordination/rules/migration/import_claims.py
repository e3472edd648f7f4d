"""The claim of an import: while it is live, the gateways' mirrors of the link stand aside.

The claim saves work only.  If a mirror and an import write to the same partition, the rules accept
only a batch that follows its end (records/mirrored_batches.py).
"""

from __future__ import annotations

from ...state.cluster import ClusterState


def import_claim(link: str) -> str:
    """Return the name of the claim of the process that imports a link's topics."""
    return f"import/{link}"


def is_imported(state: ClusterState, link: str) -> bool:
    """Return whether a live process imports the link's topics."""
    claim = state.claims.get(import_claim(link))
    return claim is not None and state.gateways.is_live(claim.incarnation)
