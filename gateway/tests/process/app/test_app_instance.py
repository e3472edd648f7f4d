"""The identity of a gateway: the key in its data folder, and cluster ids."""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path

import pytest

from tidegate_gateway.instance import DataFolderUnusable, hold_data_folder, new_cluster_id


def key_of(path: Path) -> str:
    folder = hold_data_folder(path)
    folder.close()
    return folder.instance_key


def test_the_key_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    key = key_of(path)

    assert re.fullmatch("[0-9a-f]{32}", key)
    assert key_of(path) == key
    assert key_of(tmp_path / "other") != key
    assert (path / "instance.key").stat().st_mode & 0o077 == 0


def test_a_folder_has_one_gateway_at_a_time(tmp_path: Path) -> None:
    folder = hold_data_folder(tmp_path)
    with pytest.raises(DataFolderUnusable, match="another gateway runs on the data folder"):
        hold_data_folder(tmp_path)
    folder.close()
    assert key_of(tmp_path) == folder.instance_key


@pytest.mark.parametrize("torn", ["", "0123"])
def test_a_key_that_was_not_written_whole_is_made_again(tmp_path: Path, torn: str) -> None:
    (tmp_path / "instance.key").write_text(torn)
    assert re.fullmatch("[0-9a-f]{32}", key_of(tmp_path))


def test_a_key_of_ones_own_is_taken(tmp_path: Path) -> None:
    (tmp_path / "instance.key").write_text("mine\n")
    assert key_of(tmp_path) == "mine"


def test_an_unusable_data_folder_gets_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataFolderUnusable, match="Choose another with --data"):
        hold_data_folder(tmp_path / "file")


def test_no_descriptor_is_left_over(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    key_of(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_cluster_ids_are_kafkas_uuids() -> None:
    ids = {new_cluster_id() for _ in range(200)}
    assert len(ids) == 200
    for each in ids:
        assert re.fullmatch("[A-Za-z0-9_][A-Za-z0-9_-]{21}", each)
        assert len(base64.urlsafe_b64decode(each + "==")) == 16
