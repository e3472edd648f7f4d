"""The feature of configs, and of the levels of log lines."""

from __future__ import annotations

from ...feature import Feature, Ground, Row, always
from .acts import configs_altered
from .alter_configs import AlterConfigsHandler
from .describe_configs import DescribeConfigsHandler
from .gateway_loggers import GatewayLoggers
from .guards import (
    guard_alter_configs,
    guard_describe_configs,
    guard_incremental_alter_configs,
    guard_list_config_resources,
)
from .incremental_alter_configs import IncrementalAlterConfigsHandler
from .list_config_resources import ListConfigResourcesHandler


def configs_feature(ground: Ground) -> Feature:
    """Return the feature."""
    coordinator, settings = ground.coordinator, ground.settings
    loggers = GatewayLoggers(ground.environment.log_levels, settings.int("node.id"))
    return Feature(
        "configs",
        (
            Row(
                DescribeConfigsHandler(coordinator, settings, ground.cluster, loggers),
                guard_describe_configs,
            ),
            Row(
                AlterConfigsHandler(coordinator),
                guard_alter_configs,
                act=configs_altered,
                is_audited=True,
                proposes=always,
            ),
            Row(
                IncrementalAlterConfigsHandler(coordinator, loggers),
                guard_incremental_alter_configs,
                act=configs_altered,
                is_audited=True,
                proposes=always,
            ),
            Row(
                ListConfigResourcesHandler(coordinator),
                guard_list_config_resources,
                lists=True,
            ),
        ),
    )
