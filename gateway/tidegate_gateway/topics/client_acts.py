"""Logs what clients did to topics, configs and groups: one line at level INFO for each request.

It answers an operator's later question, such as which client deleted a topic: the line has the
client's id and address.  Only changes that the answer confirms are logged, no refusals and no
validate_only.  If a request has many names, the line has the first ones and their number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cache
from typing import Any, Final, NamedTuple

import structlog

from tidegate_coordination.rules.configs import ResourceType
from tidegate_coordination.security.acls import Operation, PatternType, Permission, known
from tidegate_coordination.security.acls import ResourceType as AclResource
from tidegate_protocol.apis import APIS, ApiKey

from ..audit import MAX_ITEMS
from ..network.call import Call

_log = structlog.get_logger("tidegate.clients")

MAX_NAMES: Final = 20
CONFIGS_A_NAME: Final = 5
"""So many fit in a text of the audit log, with the name of a topic."""


class Act(NamedTuple):
    """A change by a client.  what: such as "topics deleted".  names: of all changed resources."""

    what: str
    names: list[str]
    fields: dict[str, object]


def note_acts(api_key: int, call: Call, request: Any, response: Any) -> None:
    """Log what a request changed, if its API changes anything.

    Args:
      request: decoded.  response: not yet encoded.
    """
    act_of = _ACTS.get(api_key)
    if act_of is None or (act := act_of(request, response)) is None or not act.names:
        return
    tell_act(call, act, is_audited=api_key not in _MEMBERSHIP)


def tell_act(call: Call, act: Act, *, is_audited: bool = True) -> None:
    """Write the log line of an act, and that of the audit log."""
    more = {"count": len(act.names)} if len(act.names) > MAX_NAMES else {}
    peer = f"{call.peer.host}:{call.peer.port}"
    names = act.names[:MAX_NAMES]
    _log.info(act.what, names=names, client_id=call.client_id, peer=peer, **act.fields, **more)
    if not is_audited:
        return
    # In as many lines as it takes: no change can hide behind others.
    for first in range(0, len(act.names), MAX_ITEMS):
        part = act.names[first : first + MAX_ITEMS]
        _note(call, act.what, {"names": part, **act.fields})


def note_unknown(api_key: int, call: Call) -> None:
    """Write to the audit log that a request may have been done: no answer tells what it changed.

    The log did not answer, or the connection broke meanwhile.
    """
    if api_key in _AUDITED:
        _note(call, "perhaps done", {"api": APIS[api_key].name})


def _note(call: Call, event: str, facts: Mapping[str, object]) -> None:
    if call.audit is not None:
        who = {"principal": call.peer.principal, "peer": f"{call.peer.host}:{call.peer.port}"}
        call.audit.note(event, **who, client_id=call.client_id, **facts)


def topics_created(names: list[str]) -> Act:
    """Return the act of creating topics."""
    return Act("topics created", names, {})


def _created(request: Any, response: Any) -> Act | None:
    if request.validate_only:
        return None
    return topics_created([each.name for each in response.topics if not each.error_code])


def _deleted(request: Any, response: Any) -> Act:
    done = [each for each in response.responses if not each.error_code]
    return Act("topics deleted", [each.name or each.topic_id.hex() for each in done], {})


def _extended(request: Any, response: Any) -> Act | None:
    if request.validate_only:
        return None
    counts = {each.name: each.count for each in request.topics}
    done = [each.name for each in response.results if not each.error_code]
    names = [f"{name} to {counts[name]}" for name in done if name in counts]
    return Act("partitions added", names, {})


def _records_deleted(request: Any, response: Any) -> Act:
    names = [
        f"{topic.name}-{each.partition_index} below {each.low_watermark}"
        for topic in response.topics
        for each in topic.partitions
        if not each.error_code
    ]
    return Act("records deleted", names, {})


def _configured(request: Any, response: Any) -> Act | None:
    """Names of configs only: a value may be a secret, and DescribeConfigs shows the others."""
    if request.validate_only:
        return None
    done = {
        (each.resource_type, each.resource_name)
        for each in response.responses
        if not each.error_code
    }
    names = [
        f"{_resource(each.resource_type, each.resource_name)}: "
        + ", ".join(config.name for config in each.configs[first : first + CONFIGS_A_NAME])
        for each in request.resources
        if (each.resource_type, each.resource_name) in done
        for first in range(0, len(each.configs), CONFIGS_A_NAME)
    ]
    return Act("configs altered", names, {})


def _resource(kind: int, name: str) -> str:
    known = {each.value: each.name.lower().replace("_", " ") for each in ResourceType}
    return f"{known.get(kind, kind)} {name or '(all)'}"


def _groups_deleted(request: Any, response: Any) -> Act:
    done = [each.group_id for each in response.results if not each.error_code]
    return Act("groups deleted", done, {})


def _offsets_deleted(request: Any, response: Any) -> Act:
    names = [
        f"{topic.name}-{each.partition_index}"
        for topic in response.topics
        for each in topic.partitions
        if not (response.error_code or each.error_code)
    ]
    return Act("group offsets deleted", names, {"group": request.group_id})


def _joined(request: Any, response: Any) -> Act | None:
    if response.error_code:
        return None
    fields = {"group": request.group_id, "generation": response.generation_id}
    return Act("a member joined its group", [response.member_id], fields)


def _left(request: Any, response: Any) -> Act | None:
    if response.error_code:
        return None
    several = [each.member_id for each in response.members if not each.error_code]
    names = several if request.members else [request.member_id]
    return Act("members left their group", names, {"group": request.group_id})


def _features_changed(request: Any, response: Any) -> Act | None:
    refused = {each.feature for each in response.results if each.error_code}
    if request.validate_only or response.error_code:
        return None
    updates = [each for each in request.feature_updates if each.feature not in refused]
    return Act(
        "features changed", [f"{each.feature}={each.max_version_level}" for each in updates], {}
    )


def _acls_created(request: Any, response: Any) -> Act:
    done = zip(request.creations, response.results, strict=False)
    names = [
        f"{_named(Permission, each.permission_type)} {each.principal} from {each.host}"
        f" {_named(Operation, each.operation)} on {_named(AclResource, each.resource_type)}"
        f" {each.resource_name} ({_named(PatternType, each.resource_pattern_type)})"
        for each, result in done
        if not result.error_code
    ]
    return Act("ACLs created", names, {})


def _acls_deleted(request: Any, response: Any) -> Act:
    names = [
        f"{_named(Permission, each.permission_type)} {each.principal} from {each.host}"
        f" {_named(Operation, each.operation)} on {_named(AclResource, each.resource_type)}"
        f" {each.resource_name} ({_named(PatternType, each.pattern_type)})"
        for result in response.filter_results
        for each in result.matching_acls
    ]
    return Act("ACLs deleted", names, {})


@cache  # a request may name 10,000 ACLs, and numbers have one byte
def _named(kind: type[IntEnum], number: int) -> str:
    return known(kind, number).name


def _credentials_altered(request: Any, response: Any) -> Act:
    done = [each.user for each in response.results if not each.error_code]
    return Act("SCRAM credentials altered", done, {})


def _quotas_altered(request: Any, response: Any) -> Act | None:
    if request.validate_only:
        return None
    done = zip(request.entries, response.entries, strict=False)
    names = [
        ", ".join(f"{part.entity_type} {part.entity_name or '(default)'}" for part in each.entity)
        + ": "
        + ", ".join(f"{op.key} {'removed' if op.remove else f'= {op.value:g}'}" for op in each.ops)
        for each, result in done
        if not result.error_code
    ]
    return Act("client quotas altered", names, {})


_MEMBERSHIP: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP})
_ACTS: Final[Mapping[int, Callable[[Any, Any], Act | None]]] = {
    ApiKey.JOIN_GROUP: _joined,
    ApiKey.LEAVE_GROUP: _left,
    ApiKey.CREATE_TOPICS: _created,
    ApiKey.DELETE_TOPICS: _deleted,
    ApiKey.DELETE_RECORDS: _records_deleted,
    ApiKey.ALTER_CONFIGS: _configured,
    ApiKey.CREATE_PARTITIONS: _extended,
    ApiKey.DELETE_GROUPS: _groups_deleted,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configured,
    ApiKey.OFFSET_DELETE: _offsets_deleted,
    ApiKey.UPDATE_FEATURES: _features_changed,
    ApiKey.CREATE_ACLS: _acls_created,
    ApiKey.DELETE_ACLS: _acls_deleted,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _credentials_altered,
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas_altered,
}
"""By API key."""
_AUDITED: Final = (_ACTS.keys() - _MEMBERSHIP) | {
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.WRITE_TXN_MARKERS,
}
