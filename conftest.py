"""Shared by all tests: servers for the session, started when the first test asks."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import hypothesis
import pytest

# The imports below need generated modules of the present schema, which are not in git.  The
# generator takes 0.2 s.  pytest-xdist starts its workers after this.
if "PYTEST_XDIST_WORKER" not in os.environ:
    subprocess.run([sys.executable, Path(__file__).parent / "protocol" / "generate.py"], check=True)

from tests.worlds import bug_search, seaweed
from tests.worlds.pg_server import PostgresServer, running_postgres
from tidegate_simulation.world.tasks.scheduling import seeded_scheduling

# Hypothesis takes the same examples each time, without a deadline.  The fuzzer tries others.
hypothesis.settings.register_profile("tests", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that says how planted bugs are searched for."""
    parser.addoption(
        "--planted-bugs",
        choices=bug_search.WAYS,
        default="recorded",
        help="run planted bugs in their recorded worlds (default), or in the whole worlds of many "
        "seeds; or search for the cheapest worlds that show them, and record these",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Pass the option to `bug_search`, whose callers have no fixture, and restore SIGINT's handler.

    A shell starts background commands with SIGINT ignored, and the processes that tests start would
    inherit that.
    """
    bug_search.way = config.getoption("--planted-bugs")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


S3_BUCKET = "tidegate-tests"

# Tests share modules with the programs of compat-tests/run, which are in no package.
sys.path.append(str(Path(__file__).parent / "compat-tests"))


# Imports and collection leave hardly any garbage, and the collector took a third of their time.
gc.disable()


def pytest_collection_finish() -> None:
    """Let the cycle collector skip the imported modules and the collected tests, and run rarely.

    With its default thresholds it took an eighth of the time of simulated worlds.  It still runs
    within long tests, so that their memory stays small.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 10, 20)
    gc.enable()


@pytest.fixture(autouse=True)
def order_of_tasks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Trio's order of tasks is the same in each run of a test; seeds of the simulator vary it."""
    with seeded_scheduling(crc32(request.node.nodeid.encode())):
        yield


@pytest.fixture(scope="session")
def seaweed_s3_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an empty bucket; add a prefix of your own before the '?'.

    Credentials are in the environment while the server runs, where clients look for them.
    """
    with (
        pytest.MonkeyPatch.context() as environment,
        seaweed.running_seaweed(tmp_path_factory.mktemp("seaweed")) as endpoint,
    ):
        environment.setenv("AWS_ACCESS_KEY_ID", seaweed.ACCESS_KEY)
        environment.setenv("AWS_SECRET_ACCESS_KEY", seaweed.SECRET_KEY)
        for name in ("AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
            environment.delenv(name, raising=False)
        seaweed.make_bucket(endpoint, S3_BUCKET)
        yield f"s3://{S3_BUCKET}?endpoint={endpoint}&region=us-east-1"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for all tests of a process."""
    with running_postgres() as server:
        yield server


# Tests in these folders start processes or servers, or simulate for minutes.
_SLOW_FOLDERS = (
    "compat-tests",
    "gateway/tests/commands",
    "gateway/tests/draining",
    "gateway/tests/pages",
    "gateway/tests/process",
    "lab/tests",
)
_SLOW_FILES = ("real_clients", "pipeline_command", "pipeline_spark", "pipeline_static_settings")
_SERVERS = {"seaweed_s3_url", "postgres_server"}
_WITHOUT_SLOW_ONES = "not slow"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import nothing from folders that `./check fast` leaves out whole."""
    is_left_out = config.option.markexpr == _WITHOUT_SLOW_ONES and _is_in_slow_folder(
        collection_path
    )
    return True if is_left_out else None


def _is_in_slow_folder(path: Path) -> bool:
    root = Path(__file__).parent
    return path.is_relative_to(root) and path.relative_to(root).as_posix().startswith(_SLOW_FOLDERS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `./check fast` leaves out; choose the order for several processes."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        is_slow_file = any(name in item.path.stem for name in _SLOW_FILES)
        if _SERVERS & fixtures or is_slow_file or _is_in_slow_folder(item.path.parent):
            item.add_marker(pytest.mark.slow)
    if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):
        items[:] = shared_out(items, workers)


def shared_out(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Let each worker of pytest-xdist begin with its share of the slow tests.

    pytest-xdist gives each worker a section of the list, and a worker that has finished takes tests
    from the end of another's section.  With slow tests at the start of each section, no worker ends
    late with a slow test, and tests of a file stay together.
    """
    kinds: tuple[list[pytest.Item], list[pytest.Item]] = ([], [])
    for item in items:
        kinds[item.get_closest_marker("slow") is None].append(item)
    return [
        item
        for worker in range(workers)
        for kind in kinds
        for item in kind[len(kind) * worker // workers : len(kind) * (worker + 1) // workers]
    ]
