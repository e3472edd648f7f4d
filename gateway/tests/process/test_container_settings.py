"""Settings of TidegateContainer; `./check image` runs containers (compat-tests/image)."""

from __future__ import annotations

import pytest

from tidegate_coordination.configs.broker_configs import BROKER_CONFIGS
from tidegate_gateway.settings.settings_sources import from_environment


def test_a_container_reads_each_setting_from_its_variable() -> None:
    containers = pytest.importorskip("tidegate_gateway.testing.containers")
    names = [*BROKER_CONFIGS, "listener.name.my_own.scram-sha-256.sasl.jaas.config"]
    variables = {containers.variable_of(name): "x" for name in names}
    assert from_environment(variables).keys() == {*names}
