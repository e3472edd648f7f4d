"""The pytest plug-in in other people's suites: as the page on testing shows it, and more."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.app_world import PATIENCE_SECONDS

PAGE = (Path(__file__).parents[3] / "docs" / "testing.md").read_text()
CONFIGURATION = """\
[pytest]
addopts = --strict-markers --strict-config -p no:cacheprovider
filterwarnings = error
"""
SUITE = """\
import pytest

@pytest.mark.parametrize("text", ["a b/\\u00fc", "c"])
def test_names(tidegate_topic, text):
    print("name", tidegate_topic)

def test_gateway(tidegate):
    tidegate.create_topic("own", 2)
    print("gateway", tidegate.bootstrap)
"""


def suite(folder: Path, text: str, *words: str, settings: str = "") -> tuple[int, str]:
    """Run pytest on a file of tests; return its exit code and what it printed."""
    (folder / "pytest.ini").write_text(CONFIGURATION + settings)
    (folder / "test_suite.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def examples(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_pages_block_runs(tmp_path: Path) -> None:
    (block,) = (text for text in examples("python") if "running_gateway" in text)
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (done.stdout, list(tmp_path.iterdir())) == ("b'tea'\n", [])


def test_the_pages_suite_passes_with_the_pages_settings(tmp_path: Path) -> None:
    (text,) = (text for text in examples("python") if "tidegate_topic" in text)
    (settings,) = examples("ini")
    text += """
def test_settings(tidegate):
    tidegate.create_topic("as-set")
    topics = Producer({"bootstrap.servers": tidegate.bootstrap}).list_topics().topics
    assert len(topics["as-set"].partitions) == 2
"""
    code, printed = suite(tmp_path, text, settings=settings.removeprefix("[pytest]\n"))
    assert (code, "3 passed" in printed) == (0, True), printed


def test_each_test_has_a_topic_and_each_worker_a_gateway(tmp_path: Path) -> None:
    code, printed = suite(tmp_path, SUITE, "-n", "2", "--dist", "each", "-rA")
    assert (code, "6 passed" in printed) == (0, True), printed
    names = re.findall(r"^name (.*)$", printed, re.MULTILINE)
    # Both workers use the same names; within a worker all names differ.
    assert sorted(names) == sorted(2 * ["test_names-a-b-xfc-1", "test_names-c-2"]), names
    assert len(set(re.findall(r"^gateway (.*)$", printed, re.MULTILINE))) == 2


@pytest.mark.parametrize(
    ("text", "settings", "sentence"),
    [
        ("", "tidegate_settings = num.partitions", "'num.partitions' is not NAME=VALUE"),
        (
            "import pytest\npytestmark = pytest.mark.tidegate_topic(0)\n",
            "",
            "INVALID_PARTITIONS",
        ),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, settings: str, sentence: str) -> None:
    code, printed = suite(tmp_path, text + "def test(tidegate_topic): pass\n", settings=settings)
    assert code == 1
    assert sentence in printed, printed


def test_a_suites_own_fixture_gives_the_settings(tmp_path: Path) -> None:
    text = """
import pytest
@pytest.fixture(scope="session")
def tidegate_settings():
    return {"num.partitons": 3}
def test(tidegate): pass
"""
    code, printed = suite(tmp_path, text)
    assert (code, "did you mean num.partitions?" in printed) == (1, True), printed


def test_a_suite_that_does_not_use_it_loads_nothing(tmp_path: Path) -> None:
    text = """
import sys
def test_modules(pytestconfig):
    assert pytestconfig.pluginmanager.hasplugin("tidegate")
    ours = [each for each in sys.modules if each.startswith("tidegate_")]
    assert "tidegate_gateway.testing.plugin" in ours
    assert not [each for each in ours if not each.startswith("tidegate_gateway.testing")][1:]
    assert "trio" not in sys.modules
"""
    code, printed = suite(tmp_path, text, "-p", "no:trio")
    assert code == 0, printed
