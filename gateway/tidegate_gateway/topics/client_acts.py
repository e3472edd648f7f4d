"""Logs what clients did to topics, configs and groups: one line at level INFO for each request.

With it an operator can later find out which client deleted a topic, for example: the line has the
client's id and address.  Only changes that the answer confirms are logged, not refusals and not
validate_only requests.  If a request has many names, the line has the first names and the total
number.  The rows of the APIs (feature.py) name the functions that find what a request changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import structlog

from tidegate_protocol.apis import APIS

from ..audit import MAX_ITEMS
from ..network.call import Call

_log = structlog.get_logger("tidegate.clients")

MAX_NAMES: Final = 20


class Act(NamedTuple):
    """A change by a client.

    what: such as "topics deleted".  names: the names of all changed resources.
    """

    what: str
    names: list[str]
    fields: dict[str, object]


def note_act(call: Call, act: Act | None, *, is_audited: bool) -> None:
    """Log what a request changed, if it changed anything."""
    if act is not None and act.names:
        tell_act(call, act, is_audited=is_audited)


def tell_act(call: Call, act: Act, *, is_audited: bool = True) -> None:
    """Log an act at level INFO.  If is_audited, also write it to the audit log."""
    more = {"count": len(act.names)} if len(act.names) > MAX_NAMES else {}
    peer = f"{call.peer.host}:{call.peer.port}"
    names = act.names[:MAX_NAMES]
    _log.info(act.what, names=names, client_id=call.client_id, peer=peer, **act.fields, **more)
    if not is_audited:
        return
    # As many lines as the names need, so that no change is left out.
    for first in range(0, len(act.names), MAX_ITEMS):
        part = act.names[first : first + MAX_ITEMS]
        _note(call, act.what, {"names": part, **act.fields})


def note_unknown(api_key: int, call: Call) -> None:
    """Write to the audit log that a request may have been done.

    No answer tells what it changed, since the log did not answer, or the connection broke
    meanwhile.
    """
    _note(call, "perhaps done", {"api": APIS[api_key].name})


def _note(call: Call, event: str, facts: Mapping[str, object]) -> None:
    if call.audit is not None:
        who = {"principal": call.peer.principal, "peer": f"{call.peer.host}:{call.peer.port}"}
        call.audit.note(event, **who, client_id=call.client_id, **facts)


def topics_created(names: list[str]) -> Act:
    """Return the act of creating topics."""
    return Act("topics created", names, {})
