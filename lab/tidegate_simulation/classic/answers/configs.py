"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs of topics and brokers.

A fence is max.message.bytes=0 on a topic.  The answer comes when the controller has decided; each
broker applies the change after its own delay.  Configs of brokers are shown, and have no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import alter_configs as ac
from tidegate_protocol.messages import describe_configs as dc
from tidegate_protocol.messages import incremental_alter_configs as ia

from .. import rights
from ..broker_state import Asked
from ..refusals import Refused
from ..topic_settings import KINDS, InvalidConfig, check_config

_TOPIC: Final = 2
_BROKER: Final = 4
_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3
_OF_TOPIC, _STATIC, _DEFAULT = 1, 4, 5
_STRING_TYPE: Final = 2


async def answer_describe_configs(
    asked: Asked, request: dc.DescribeConfigsRequest
) -> dc.DescribeConfigsResponse:
    """Show a topic's configs as this broker sees them."""
    await trio.lowlevel.checkpoint()
    return dc.DescribeConfigsResponse(
        results=[_described(asked, each) for each in request.resources]
    )


def _described(asked: Asked, resource: dc.DescribeConfigsResource) -> dc.DescribeConfigsResult:
    kind, name = resource.resource_type, resource.resource_name
    result = dc.DescribeConfigsResult(0, None, kind, name)
    try:
        _authorize(asked, rights.DESCRIBE_CONFIGS, kind, name)
        rows = _topic_rows(asked, name) if kind == _TOPIC else _broker_rows(asked, kind, name)
    except Refused as refused:
        result.error_code, result.error_message = refused.code, str(refused)
        return result
    keys = resource.configuration_keys
    result.configs = [each for each in rows if not keys or each.name in keys]
    return result


def _topic_rows(asked: Asked, name: str) -> list[dc.DescribeConfigsResourceResult]:
    broker = asked.broker
    configs = broker.topic(name).configs.configs(broker.node_id, broker.now())
    return [
        dc.DescribeConfigsResourceResult(
            each,
            configs.get(each, kind.default),
            config_source=_OF_TOPIC if each in configs else _DEFAULT,
            config_type=kind.type_code,
            documentation=None,
        )
        for each, kind in KINDS.items()
    ]


def _broker_rows(asked: Asked, kind: int, name: str) -> list[dc.DescribeConfigsResourceResult]:
    if kind != _BROKER or name not in ("", str(asked.broker.node_id)):
        raise Refused(ErrorCode.INVALID_REQUEST, f"unexpected resource {kind} {name}")
    configs = asked.broker.cluster.broker_configs if name else {}
    return [
        dc.DescribeConfigsResourceResult(
            each,
            value,
            read_only=True,
            config_source=_STATIC,
            config_type=_STRING_TYPE,
            documentation=None,
        )
        for each, value in configs.items()
    ]


async def answer_incremental_alter_configs(
    asked: Asked, request: ia.IncrementalAlterConfigsRequest
) -> ia.IncrementalAlterConfigsResponse:
    """Change single configs; each resource is changed wholly or not at all."""
    await trio.lowlevel.checkpoint()
    response = ia.IncrementalAlterConfigsResponse()
    for each in request.resources:
        kind, name = each.resource_type, each.resource_name
        answer = ia.AlterConfigsResourceResponse(0, None, kind, name)
        try:
            _authorize(asked, rights.ALTER_CONFIGS, kind, name)
            configs = _changed(_now(asked, kind, name), each.configs)
            _check(asked, kind, name, configs)
            _alter(asked, kind, name, configs, dry=request.validate_only)
        except Refused as refused:
            answer.error_code, answer.error_message = refused.code, str(refused)
        response.responses.append(answer)
    return response


async def answer_alter_configs(
    asked: Asked, request: ac.AlterConfigsRequest
) -> ac.AlterConfigsResponse:
    """Replace all configs of a resource."""
    await trio.lowlevel.checkpoint()
    response = ac.AlterConfigsResponse()
    for each in request.resources:
        kind, name = each.resource_type, each.resource_name
        answer = ac.AlterConfigsResourceResponse(0, None, kind, name)
        try:
            _authorize(asked, rights.ALTER_CONFIGS, kind, name)
            _now(asked, kind, name)
            configs = {one.name: one.value for one in each.configs}
            if None in configs.values():
                raise Refused(ErrorCode.INVALID_REQUEST, "a null value")
            known = {key: value for key, value in configs.items() if value is not None}
            _check(asked, kind, name, known)
            _alter(asked, kind, name, known, dry=request.validate_only)
        except Refused as refused:
            answer.error_code, answer.error_message = refused.code, str(refused)
        response.responses.append(answer)
    return response


def _authorize(asked: Asked, operation: str, kind: int, name: str) -> None:
    if kind == _TOPIC:
        if not asked.may(operation, rights.TOPIC, name):
            raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
    elif not asked.may(operation, rights.CLUSTER):
        raise Refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")


def _now(asked: Asked, kind: int, name: str) -> dict[str, str]:
    """Return the controller's configs of a resource; none of an unknown topic."""
    if kind == _TOPIC:
        topic = asked.broker.cluster.topics.get(name)
        return topic.configs.latest if topic is not None else {}
    if kind == _BROKER:
        return dict(asked.broker.cluster.broker_configs)
    raise Refused(ErrorCode.INVALID_REQUEST, f"unexpected resource type {kind}")


def _changed(configs: dict[str, str], changes: list[ia.AlterableConfig]) -> dict[str, str]:
    if len({each.name for each in changes}) < len(changes):
        raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    for each in changes:
        if each.config_operation == _DELETE:
            configs.pop(each.name, None)
        elif each.value is None:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for: {each.name}")
        elif each.config_operation == _SET:
            configs[each.name] = each.value
        else:
            configs[each.name] = _listed(configs, each.name, each.value, each.config_operation)
    return configs


def _listed(configs: Mapping[str, str], name: str, value: str, operation: int) -> str:
    kind = KINDS.get(name)
    if operation not in (_APPEND, _SUBTRACT):
        raise Refused(ErrorCode.INVALID_REQUEST, f"unknown operation {operation}")
    if kind is None or not kind.is_list:
        raise Refused(ErrorCode.INVALID_CONFIG, f"{name} is no list")
    now = [each for each in configs.get(name, kind.default).split(",") if each]
    given = value.split(",")
    if operation == _APPEND:
        return ",".join(now + [each for each in given if each not in now])
    return ",".join(each for each in now if each not in given)


def _check(asked: Asked, kind: int, name: str, configs: Mapping[str, str]) -> None:
    """Check the values, then whether there is such a topic."""
    if kind != _TOPIC:
        return
    try:
        for each, value in configs.items():
            check_config(each, value)
    except InvalidConfig as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error
    asked.broker.topic(name)


def _alter(asked: Asked, kind: int, name: str, configs: dict[str, str], *, dry: bool) -> None:
    cluster = asked.broker.cluster
    if dry:
        return
    if kind == _BROKER:
        cluster.broker_configs = configs
    else:
        cluster.set_configs(name, configs, asked.broker.now())
