"""SeaweedFS as the object store of a run; storage/tests/worlds/seaweed.py knows how to run it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from harness.places import ROOT

BUCKET = "tidegate-crash"


def _seaweed() -> ModuleType:
    path = ROOT / "storage" / "tests" / "seaweed.py"
    spec = importlib.util.spec_from_file_location("seaweed", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def seaweed_store(folder: Path) -> Generator[str]:
    """Run SeaweedFS with its data in folder; yield the URL of an empty bucket.

    The credentials go into this process's environment, which its gateways inherit.
    """
    seaweed = _seaweed()
    with seaweed.running_seaweed(folder) as endpoint:
        os.environ["AWS_ACCESS_KEY_ID"] = seaweed.ACCESS_KEY
        os.environ["AWS_SECRET_ACCESS_KEY"] = seaweed.SECRET_KEY
        seaweed.make_bucket(endpoint, BUCKET)
        yield f"s3://{BUCKET}/run?endpoint={endpoint}&region=us-east-1"
