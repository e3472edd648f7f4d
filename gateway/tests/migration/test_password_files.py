"""The file of users' new passwords."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from tidegate_gateway.cli.link.password_file import read_passwords, write_passwords
from tidegate_runtime.settings_texts import BadSource


@pytest.mark.parametrize(
    ("text", "mode", "problem"),
    [
        ('{"a": "b"}', 0o644, "others may read it"),
        ('["a"]', 0o600, "no JSON object"),
        ('{"a": 1}', 0o600, "no JSON object"),
        ('{"a": ""}', 0o600, "the password of 'a': it is empty"),
        ('{"a": "\\u00e4"}', 0o600, "printable ASCII"),
    ],
)
def test_files_of_passwords_that_are_refused(
    text: str, mode: int, problem: str, tmp_path: Path
) -> None:
    file = tmp_path / "f"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(BadSource, match=problem):
        read_passwords(file)


def test_a_file_of_passwords_is_its_owners_and_new(tmp_path: Path) -> None:
    write_passwords(tmp_path / "f", {"a": "b"})
    assert read_passwords(tmp_path / "f") == {"a": "b"}
    with pytest.raises(BadSource, match="File exists"):
        write_passwords(tmp_path / "f", {})
    with pytest.raises(BadSource, match="No such file"):
        read_passwords(tmp_path / "g")


def test_a_file_of_passwords_is_on_the_disk_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[bool, bytes]] = []
    file = tmp_path / "f"

    def fsync(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        synced.append((is_folder, file.read_bytes()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_passwords(file, {"a": "b"})
    whole = file.read_bytes()
    assert synced == [(False, whole), (True, whole)]


@pytest.mark.parametrize("breaks_at_folder", [False, True])
def test_half_a_file_of_passwords_is_removed(
    breaks_at_folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) is breaks_at_folder:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(BadSource, match="No space left on device"):
        write_passwords(tmp_path / "f", {"a": "b"})
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("of another")
    with pytest.raises(BadSource, match="File exists"):
        write_passwords(tmp_path / "f", {"a": "b"})
    assert (tmp_path / "f").read_text() == "of another"
