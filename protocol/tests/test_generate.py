"""protocol/generate.py writes what the schema says, only where that differs, and whole."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROTOCOL = Path(__file__).parents[1]
HEARTBEAT = "messages/heartbeat.py"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The empty folder that a copy of the generator writes to."""
    shutil.copy(PROTOCOL / "generate.py", tmp_path)
    shutil.copytree(PROTOCOL / "codegen", tmp_path / "codegen")
    shutil.copytree(PROTOCOL / "schema", tmp_path / "schema")
    package = tmp_path / "tidegate_protocol"
    package.mkdir()
    return package


def start(package: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, package.with_name("generate.py")])


def generate(package: Path) -> None:
    assert start(package).wait() == 0


def texts(package: Path) -> dict[str, str]:
    """The generated files by their place in the package, including files that a generator left."""
    paths = [*package.glob("apis.py*"), *package.glob("messages/*.*")]
    return {path.relative_to(package).as_posix(): path.read_text() for path in paths}


def test_the_modules_of_this_tree_are_those_of_the_schema(package: Path) -> None:
    generate(package)
    found = texts(package)
    assert found == texts(PROTOCOL / "tidegate_protocol")
    assert found.keys() >= {"apis.py", "messages/__init__.py", HEARTBEAT}


def test_only_files_that_differ_are_replaced(package: Path) -> None:
    generate(package)
    wanted = texts(package)
    kept = (package / "apis.py").stat()
    (package / HEARTBEAT).write_text("changed by hand")
    (package / "messages" / "fetch.py").unlink()
    (package / "messages" / "gone.py").write_text("its schema is gone")
    with (package / HEARTBEAT).open() as importing:
        generate(package)
        assert importing.read() == "changed by hand"
    assert texts(package) == wanted
    now = (package / "apis.py").stat()
    assert (now.st_ino, now.st_mtime_ns) == (kept.st_ino, kept.st_mtime_ns)


def test_several_at_once_leave_whole_files(package: Path) -> None:
    running = [start(package) for _ in range(3)]
    assert [each.wait() for each in running] == [0, 0, 0]
    assert texts(package) == texts(PROTOCOL / "tidegate_protocol")
