"""Addresses as texts."""

from __future__ import annotations

import pytest

from tidegate_runtime.addresses import host_port
from tidegate_runtime.settings_texts import SettingsError


def test_host_port() -> None:
    assert host_port("admin.listener", "[::]:80") == ("::", 80)
    assert host_port("admin.listener", ":80") == ("", 80)
    with pytest.raises(SettingsError, match=r"admin\.listener=80 is not host:port"):
        host_port("admin.listener", "80")
