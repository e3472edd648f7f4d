"""Shared by all tests: servers for the session, started when the first test asks."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import pytest

# The same examples each time, and no opinion on how long they take: what is found anew on another
# day is for the fuzzer.
hypothesis.settings.register_profile("tests", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("tests")

S3_BUCKET = "tidegate-tests"

# The tests of real clients share modules with compat-tests/run, which are in no package.
sys.path.append(str(Path(__file__).parent / "compat-tests"))


def _module(folder: str, name: str) -> ModuleType:
    """A module among the tests of a folder, which are in no package."""
    path = Path(__file__).parent / folder / "tests" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def seaweed_s3_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an empty bucket; add a prefix of your own before the '?'.

    Credentials are in the environment while the server runs, where clients look for them.
    """
    seaweed = _module("storage", "seaweed")
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
def postgres_server() -> Iterator[Any]:
    """A `pg_server.PostgresServer`, one for all tests of a process."""
    with _module("coordination", "pg_server").running_postgres() as server:
        yield server
