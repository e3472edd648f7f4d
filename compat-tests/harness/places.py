"""Paths, and the versions that are pinned."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent
WORK = HERE / ".work"  # git-ignored: everything that a run downloads, builds or writes

KAFKA_VERSION = "4.3.1"
FRANZ_GO_VERSION = "v1.22.2"
KAFKA_PYTHON_VERSION = "3.0.12"
OLD_KAFKA_PYTHON_VERSIONS = ("2.0.2", "1.4.7")  # Debian's version, and one without zstd
KAFKA_GO_VERSION = "v0.4.51"
LIBRDKAFKA_PACKAGE = "@confluentinc/kafka-javascript@1.10.1"  # carries librdkafka 2.15.1


def log_of(name: str) -> Path:
    """The file of a suite's output.  Each run has another file, since runs may run side by side."""
    return WORK / "logs" / f"{name}-{os.getpid()}.log"
