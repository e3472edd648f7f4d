"""Shared by all tests: servers for the session, started when the first test asks."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import hypothesis
import pytest

from tests.worlds import seaweed
from tests.worlds.pg_server import PostgresServer, running_postgres
from tidegate_simulation.world.scheduling import seeded_scheduling

# The same examples each time, and no opinion on how long they take: what is found anew on another
# day is for the fuzzer.
hypothesis.settings.register_profile("tests", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("tests")

S3_BUCKET = "tidegate-tests"

# The tests of real clients share modules with compat-tests/run, which are in no package.
sys.path.append(str(Path(__file__).parent / "compat-tests"))


def pytest_collection_finish() -> None:
    """Let the cycle collector skip the imported modules and the collected tests, and run rarely.

    With its default thresholds it took an eighth of the time of simulated worlds.  It still runs
    within long tests, so that their memory stays small.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 10, 20)


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `./check fast` leaves out."""
    root = Path(__file__).parent
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        folder = item.path.parent.relative_to(root).as_posix()
        is_slow_file = any(name in item.path.stem for name in _SLOW_FILES)
        if _SERVERS & fixtures or is_slow_file or folder.startswith(_SLOW_FOLDERS):
            item.add_marker(pytest.mark.slow)
