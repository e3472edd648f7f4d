"""Guards of the APIs of configs: a right on the topic or group; otherwise on the cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from tidegate_coordination.rules.configs import ResourceType as ConfigResourceType
from tidegate_coordination.security.acls import Operation
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)

from ...security.guard import Caller, Guard, Guarding, parted, whole

_OF_CLUSTER: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TOPIC: Final = ConfigResourceType.TOPIC.value
_GROUP: Final = ConfigResourceType.GROUP.value
_CODES: Final[dict[int, ErrorCode]] = {
    _TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    _GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
}


class _Resource(Protocol):
    resource_type: int
    resource_name: str


def _may(caller: Caller, operation: Operation, resource: _Resource) -> bool:
    if resource.resource_type == _TOPIC:
        return caller.may_topic(operation, resource.resource_name)
    if resource.resource_type == _GROUP:
        return caller.may_group(operation, resource.resource_name)
    return caller.may_cluster(operation)


def _code(resource: _Resource) -> ErrorCode:
    return _CODES.get(resource.resource_type, _OF_CLUSTER)


def guard_describe_configs(
    caller: Caller, request: describe_configs.DescribeConfigsRequest
) -> Guarding:
    """Check DESCRIBE_CONFIGS."""
    request.resources, denied = yield from parted(
        request.resources, lambda each: _may(caller, Operation.DESCRIBE_CONFIGS, each)
    )
    response = describe_configs.DescribeConfigsResponse()
    if request.resources or not denied:
        response = yield request
    response.results += [
        describe_configs.DescribeConfigsResult(
            _code(each), error_text(_code(each)), each.resource_type, each.resource_name
        )
        for each in denied
    ]
    return response


def _altering(answer_of: Any, response_of: Callable[[], Any]) -> Guard:
    """Return a guard of either API that alters configs: ALTER_CONFIGS."""

    def guard(caller: Caller, request: Any) -> Guarding:
        request.resources, denied = yield from parted(
            request.resources, lambda each: _may(caller, Operation.ALTER_CONFIGS, each)
        )
        response = response_of()
        if request.resources or not denied:
            response = yield request
        response.responses += [
            answer_of(_code(each), error_text(_code(each)), each.resource_type, each.resource_name)
            for each in denied
        ]
        return response

    return guard


guard_alter_configs: Final = _altering(
    alter_configs.AlterConfigsResourceResponse, alter_configs.AlterConfigsResponse
)
guard_incremental_alter_configs: Final = _altering(
    incremental_alter_configs.AlterConfigsResourceResponse,
    incremental_alter_configs.IncrementalAlterConfigsResponse,
)


guard_list_config_resources: Final = whole(
    Operation.DESCRIBE_CONFIGS, partial(list_config_resources.refused, error_code=_OF_CLUSTER)
)
