"""The wheel is complete: everything that it installs works without the checkout and extras.

The packages that `pip install tidegate` brings come from this environment, so nothing is
downloaded.  Other packages are not visible.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from tests.worlds.app_world import PATIENCE_SECONDS, Process, deadline
from tests.worlds.greetings import consume, produce
from tidegate_protocol.record_walk import IS_COMPILED

ROOT = Path(__file__).parents[3]
BUILD = "import sys, hatchling.build as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"
SHARED = ".data/data/share/tidegate/"
PACKAGES = re.compile(r'^    "(\w+/\w+)",$', re.MULTILINE)


class Installed:
    """A virtual environment with the wheel.  wheel: the file.  python: that of the environment."""

    def __init__(self, folder: Path) -> None:
        self.wheel = build("build_wheel", folder, ROOT)
        run(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"), cwd=folder)
        self.python = folder / "venv" / "bin" / "python"
        pip = ("-m", "pip", "--python", str(self.python), "--disable-pip-version-check", "install")
        run(sys.executable, *pip, "--no-index", "--no-deps", str(self.wheel), cwd=folder)
        (site_packages,) = (folder / "venv").glob("lib/python*/site-packages")
        for name in needed(distribution("tidegate").requires or []):
            link(name, site_packages)

    @property
    def tidegate(self) -> str:
        return str(self.python.with_name("tidegate"))


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environ = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def build(kind: str, folder: Path, tree: Path) -> Path:
    """Build a wheel or an sdist of a tree into a folder."""
    return folder / run(sys.executable, "-c", BUILD, kind, str(folder), cwd=tree).stdout.split()[-1]


def needed(requirements: list[str]) -> set[str]:
    """Return the distributions that pip would install for these requirements, without extras."""
    found: set[str] = set()
    waiting = list(requirements)
    while waiting:
        requirement = waiting.pop()
        name = re.split(r"[^\w.-]", requirement)[0]
        if "extra ==" in requirement or name in found:
            continue
        if not is_here(name):
            # A requirement that is not installed must be for another version of Python.
            assert ";" in requirement, f"{name} is needed, and not here"
            continue
        found.add(name)
        waiting += distribution(name).requires or []
    return found


def is_here(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def link(name: str, site_packages: Path) -> None:
    """Link the files of a distribution of this environment into the other environment."""
    whole = distribution(name)
    for top in {each.parts[0] for each in whole.files or []} - {"..", "__pycache__"}:
        target = site_packages / top
        if not target.exists():
            target.symlink_to(Path(str(whole.locate_file(top))))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("wheel"))


def test_it_has_all_packages_and_nothing_else(installed: Installed) -> None:
    folders = PACKAGES.findall((ROOT / "pyproject.toml").read_text())
    assert len(folders) > 5
    wanted = {
        path.relative_to((ROOT / folder).parent).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(installed.wheel) as file:
        names = set(file.namelist())
    info = {each for each in names if ".dist-info/" in each}
    assert {each for each in names - info if SHARED not in each} == wanted
    assert {"METADATA", "entry_points.txt", "licenses/LICENSE"} <= {
        each.partition("/")[2] for each in info
    }


def test_an_sdist_makes_the_same_wheel_without_the_generator(
    installed: Installed, tmp_path: Path
) -> None:
    sdist = build("build_sdist", tmp_path, ROOT)
    run("tar", "-xf", str(sdist), cwd=tmp_path)
    tree = tmp_path / sdist.name.removesuffix(".tar.gz")
    shutil.rmtree(tree / "protocol" / "codegen")
    built = build("build_wheel", tmp_path, tree)
    with zipfile.ZipFile(installed.wheel) as one, zipfile.ZipFile(built) as other:
        assert sorted(one.namelist()) == sorted(other.namelist())
        for name in one.namelist():
            if "tidegate_protocol/" in name and name.endswith(".py"):
                assert one.read(name) == other.read(name), name


def test_it_brings_pages_and_files_for_operators(installed: Installed) -> None:
    shared = installed.python.parents[1] / "share" / "tidegate"
    for top in ("docs", "deploy"):
        for each in (ROOT / top).rglob("*"):
            if each.suffix in {".md", ".yaml", ".json", ".service"}:
                there = shared / each.relative_to(ROOT)
                assert there.read_bytes() == each.read_bytes(), there
    pages = {each.relative_to(shared) for each in shared.rglob("*.md")}
    assert {Path("README.md"), Path("CHANGELOG.md"), Path("deploy/README.md")} <= pages
    assert (shared / "constraints.txt").exists()


def test_its_walk_over_records_is_compiled_where_this_trees_is(installed: Installed) -> None:
    here = run(sys.executable, "-m", "tidegate_gateway", "version", cwd=ROOT)
    there = run(installed.tidegate, "version", cwd=installed.python.parent)
    assert there.stdout == here.stdout
    assert ("record walk: compiled" in there.stdout) is IS_COMPILED


def test_a_gateway_serves_clients(installed: Installed, tmp_path: Path) -> None:
    command = [installed.tidegate, "dev", "--port", "0", "--admin-port", "0", "--json"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as popen:
        try:
            assert popen.stdout is not None
            with deadline(popen):
                process = Process(popen, json.loads(popen.stdout.readline()))
            produce(process.servers, "a", "b", compression_type="zstd")
            assert consume(process.servers, 2) == ["a", "b"]
            assert process.stop() == (0, "")
        finally:
            popen.kill()
    data = ("--data", "tidegate-data")
    shown = run(installed.tidegate, "pipeline", "once", *data, "--rest-ms", "0", cwd=tmp_path)
    # The command that installs Spark.
    assert str(installed.python.parent) in shown.stdout + shown.stderr


def test_each_command_and_kind_of_log_can_be_loaded(installed: Installed, tmp_path: Path) -> None:
    program = (
        "from importlib.metadata import distribution\n"
        "for each in distribution('tidegate').entry_points:\n"
        "    if each.group != 'pytest11':\n"
        "        print(each.group, each.name, each.load().__module__)\n"
    )
    loaded = run(str(installed.python), "-c", program, cwd=tmp_path).stdout.splitlines()
    assert len(loaded) == len(distribution("tidegate").entry_points) - 1
    run(installed.tidegate, "simulate", "--seeds", "1", "--operations", "5", cwd=tmp_path)
    run(installed.tidegate, "--help", cwd=tmp_path)


def test_a_suite_of_pytest_has_a_gateway(installed: Installed, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in needed(["pytest"]):
        link(name, packages)
    suite = tmp_path / "test_suite.py"
    suite.write_text(
        "import tidegate_gateway\n"
        "def test_topic(tidegate, tidegate_topic):\n"
        f"    assert tidegate_gateway.__file__.startswith({str(installed.python.parents[1])!r})\n"
        "    assert tidegate.bootstrap and tidegate_topic\n"
    )
    program = (
        f"import sys; sys.path.append({str(packages)!r}); import pytest; sys.exit(pytest.main())"
    )
    words = ("-W", "error", "-c", program, "-q", "-c", "/dev/null", str(suite))
    assert "1 passed" in run(str(installed.python), *words, cwd=tmp_path).stdout


def test_it_says_how_to_add_what_is_missing(installed: Installed, tmp_path: Path) -> None:
    """The command names the pip of this environment, and a package that an index has."""
    python = re.escape(str(installed.python.parent))
    for arguments, package in (
        (("serve", "--set", "metadata.log=postgres://127.0.0.1/x"), r"'psycopg\[binary\]'"),
        (("pipeline", "once", "--runner", "spark"), ".* pyspark"),
    ):
        done = subprocess.run(
            [installed.tidegate, *arguments, "--data", "data"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 1
        assert re.search(rf"{python}/python\S* -m pip install {package}", done.stderr), done.stderr
