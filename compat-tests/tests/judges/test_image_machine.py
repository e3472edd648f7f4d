"""The tools of containers, without containers: `./check image` must not touch other containers."""

from __future__ import annotations

from pathlib import Path

import pytest
from image.machine import Machine


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A podman that records the commands it gets."""
    calls, program = tmp_path / "calls", tmp_path / "podman"
    program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return calls


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_a_killed_run_left_is_removed_and_nothing_else(
    called: Path, tmp_path: Path, is_whole: bool
) -> None:
    machine = Machine(tmp_path / "image")
    machine.prepare()
    called.unlink()
    if not is_whole:  # as after a kill while it removed its files
        Path(machine.environ["CONTAINERS_STORAGE_CONF"]).unlink()
    machine.clear()
    assert called.exists() == is_whole
    assert not machine.folder.exists()
