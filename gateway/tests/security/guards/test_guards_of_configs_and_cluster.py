"""The guards of configs and the cluster: what a handler gets, and how other parts are refused."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate_coordination.security.acls import Operation
from tidegate_gateway.requests.configs import guards as configs
from tidegate_gateway.requests.topics import replica_guards
from tidegate_protocol.messages import describe_configs as describe_configs_wire
from tidegate_protocol.messages import describe_log_dirs as dirs_wire
from tidegate_protocol.messages import incremental_alter_configs as incremental_wire

from .guard_world import CLUSTER_DENIED, GROUP_DENIED, TOPIC_DENIED, group, run, topic
from .guard_world import cluster as on_cluster


@pytest.mark.parametrize(
    ("kind", "right", "code"),
    [
        (2, topic(Operation.DESCRIBE_CONFIGS, "r"), TOPIC_DENIED),
        (32, group(Operation.DESCRIBE_CONFIGS, "r"), GROUP_DENIED),
        (4, on_cluster(Operation.DESCRIBE_CONFIGS), CLUSTER_DENIED),
        (8, on_cluster(Operation.DESCRIBE_CONFIGS), CLUSTER_DENIED),
        (16, on_cluster(Operation.DESCRIBE_CONFIGS), CLUSTER_DENIED),
    ],
)
def test_configs_need_a_right_on_what_they_belong_to(kind: int, right: Any, code: int) -> None:
    def ask(*allowed: Any) -> Any:
        request = describe_configs_wire.DescribeConfigsRequest(
            [describe_configs_wire.DescribeConfigsResource(kind, "r")]
        )
        return run(
            configs.guard_describe_configs,
            request,
            *allowed,
            answer=lambda _: describe_configs_wire.DescribeConfigsResponse(),
        )

    assert len(ask(right).passed.resources) == 1
    refused = ask()
    assert refused.passed is None
    [found] = refused.response.results
    assert (found.error_code, found.resource_type, found.resource_name) == (code, kind, "r")


def test_altering_configs_needs_alter_configs() -> None:
    request = incremental_wire.IncrementalAlterConfigsRequest(
        [incremental_wire.AlterConfigsResource(2, each) for each in ("a", "b")]
    )
    done = run(
        configs.guard_incremental_alter_configs,
        request,
        topic(Operation.ALTER_CONFIGS, "a"),
        topic(Operation.DESCRIBE_CONFIGS, "b"),
        answer=lambda _: incremental_wire.IncrementalAlterConfigsResponse(),
    )
    assert [each.resource_name for each in done.passed.resources] == ["a"]
    [refused] = done.response.responses
    assert (refused.resource_name, refused.error_code) == ("b", TOPIC_DENIED)


def test_log_dirs_need_describe_of_the_cluster() -> None:
    request = dirs_wire.DescribeLogDirsRequest()
    done = run(replica_guards.guard_describe_log_dirs, request, on_cluster(Operation.ALTER))
    assert (done.passed, done.response.error_code) == (None, CLUSTER_DENIED)
    done = run(
        replica_guards.guard_describe_log_dirs,
        request,
        on_cluster(Operation.DESCRIBE),
        answer=lambda _: "dirs",
    )
    assert done.response == "dirs"
