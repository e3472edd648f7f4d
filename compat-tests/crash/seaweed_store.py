"""SeaweedFS as the object store of a run; storage/tests/worlds/seaweed.py knows how to run it."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.worlds import seaweed

BUCKET = "tidegate-crash"


@contextmanager
def seaweed_store(folder: Path) -> Generator[str]:
    """Run SeaweedFS with its data in folder; yield the URL of an empty bucket.

    The credentials go into this process's environment, which its gateways inherit.
    """
    with seaweed.running_seaweed(folder) as endpoint:
        os.environ["AWS_ACCESS_KEY_ID"] = seaweed.ACCESS_KEY
        os.environ["AWS_SECRET_ACCESS_KEY"] = seaweed.SECRET_KEY
        seaweed.make_bucket(endpoint, BUCKET)
        yield f"s3://{BUCKET}/run?endpoint={endpoint}&region=us-east-1"
