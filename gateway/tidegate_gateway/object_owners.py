"""Which gateway of a zone reads an object for all of them.  Pure.

Who wrote a WAL object has it in memory, and is the owner as long as it lives.  Of all others it is
chosen by rendezvous hashing, so that everybody asks the same one without a word about it.  Gateways
may disagree for a while: that costs a GET.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate_coordination.forwarding.leaders import PEER_LISTENER
from tidegate_coordination.rendezvous import choose
from tidegate_coordination.state.gateways import Gateway, GatewayTable
from tidegate_coordination.state.objects import ObjectName, WalName


def lenders(gateways: GatewayTable, zone: str) -> list[Gateway]:
    """Return the gateways of a zone that others can ask."""
    return [
        each
        for each in gateways.brokers()
        if each.zone == zone and each.endpoint(PEER_LISTENER) is not None
    ]


def owner(
    near: list[Gateway], name: ObjectName, object_key: str, is_suspect: Callable[[int], bool]
) -> Gateway | None:
    """Return who reads an object; None for nobody.

    near: see lenders().  is_suspect: tells of an incarnation whether it is left alone.
    """
    able = [each for each in near if not is_suspect(each.incarnation)]
    if isinstance(name, WalName):
        for each in able:
            if each.incarnation == name.incarnation:
                return each
    able = [each for each in able if not each.draining] or able
    if not able:
        return None
    chosen = choose(object_key.encode(), [each.node_id for each in able])
    return next(each for each in able if each.node_id == chosen)
