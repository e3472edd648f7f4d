"""The disk operations of the disk cache, on the real disk and on its twin."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tidegate_storage.disk.memory_disk import MemoryDiskSteps
from tidegate_storage.stores.files.real_disk import RealDiskSteps
from tidegate_storage.stores.files.steps import DiskSteps


def real(folder: Path) -> DiskSteps:
    return RealDiskSteps(str(folder / "disk"))


def in_memory(folder: Path) -> DiskSteps:
    return MemoryDiskSteps()


@pytest.fixture(params=[real, in_memory])
def steps(request: pytest.FixtureRequest, tmp_path: Path) -> DiskSteps:
    make: Callable[[Path], DiskSteps] = request.param
    made = make(tmp_path)
    if isinstance(made, RealDiskSteps):
        made.make_folder("")
    return made


def write(steps: DiskSteps, path: str, body: bytes) -> None:
    handle = steps.open_new(path)
    steps.write(handle, body)
    steps.close(handle)


def test_a_renamed_file_takes_the_place_of_another(steps: DiskSteps) -> None:
    write(steps, "new", b"new")
    write(steps, "old", b"old")
    before = steps.open_file("old")
    steps.rename("new", "old")
    assert [entry.name for entry in steps.scan("")] == ["old"]
    assert steps.read("old", 0, None) == b"new"
    assert before.read_at(0, 10) == b"old"
    with pytest.raises(FileNotFoundError):
        steps.rename("missing", "other")
    steps.make_folder("folder")
    with pytest.raises(IsADirectoryError):
        steps.rename("old", "folder")


def test_an_open_file_outlives_its_name(steps: DiskSteps) -> None:
    write(steps, "file", b"0123456789")
    file = steps.open_file("file")
    steps.remove("file")
    assert file.read_at(3, 4) == b"3456"
    assert file.read_at(8, 4) == b"89"
    assert file.read_at(10, 4) == b""
    assert file.stamp()[0] == 10
    with pytest.raises(FileNotFoundError):
        steps.open_file("file")


def test_a_folder_cannot_be_opened_as_a_file(steps: DiskSteps) -> None:
    steps.make_folder("folder")
    with pytest.raises(IsADirectoryError):
        steps.open_file("folder")


def test_the_root_folder_exists(steps: DiskSteps) -> None:
    with pytest.raises(FileExistsError):
        steps.make_folder("")


def test_a_file_just_written_is_in_memory(steps: DiskSteps) -> None:
    write(steps, "file", bytes(100_000))
    assert steps.open_file("file").is_in_memory(0, 100_000)


def test_a_file_is_sent_without_waiting(steps: DiskSteps) -> None:
    body = bytes(range(256)) * 40_000
    write(steps, "file", body)
    file = steps.open_file("file")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        sent = 0
        with suppress(BlockingIOError):
            while True:
                sent += file.send_to(ours.fileno(), 5 + sent, 1 << 20)
        assert 0 < sent < len(body)
        assert theirs.recv(sent, socket.MSG_WAITALL) == body[5 : 5 + sent]
        assert file.send_to(ours.fileno(), len(body), 10) == 0


def test_a_write_changes_the_stamp(tmp_path: Path) -> None:
    on_disk, twin = RealDiskSteps(str(tmp_path)), MemoryDiskSteps()
    for steps in (on_disk, twin):
        write(steps, "file", b"0123456789")
    files = [steps.open_file("file") for steps in (on_disk, twin)]
    stamps = [file.stamp() for file in files]
    assert [file.stamp() for file in files] == stamps
    (tmp_path / "file").write_bytes(b"0123")
    twin.cut_short("file", 4)
    assert all(file.stamp() != stamp for file, stamp in zip(files, stamps, strict=True))
    assert [file.read_at(2, 10) for file in files] == [b"23", b"23"]
