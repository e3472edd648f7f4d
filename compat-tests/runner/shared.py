"""Options that several programs have.  The options class of a program inherits them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.kafka_cluster import NODES
from harness.places import KAFKA_VERSION, WORK

from runner.options import option


@dataclass(frozen=True)
class NoOptions:
    """A run without options."""


@dataclass(frozen=True, kw_only=True)
class Seeded:
    """A run that draws by a seed."""

    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A run whose logs and data may stay."""

    folder: Path | None = field(
        default=None, metadata={"says": "where logs and data stay (an empty one)"}
    )

    @contextmanager
    def work_folder(self, name: str) -> Iterator[Path]:
        """Yield the folder of the run: the one of the option, or one that is removed at the end."""
        WORK.mkdir(exist_ok=True)
        with TemporaryDirectory(dir=WORK, prefix=f"{name}-") as made:
            folder = (self.folder or Path(made)).resolve()
            folder.mkdir(parents=True, exist_ok=True)
            yield folder


@dataclass(frozen=True, kw_only=True)
class FromKafka:
    """A run whose source is a classic cluster."""

    brokers: int = option(1, "of the source", choices=(1, NODES))
    kafka: str = option(KAFKA_VERSION, "the source's release")
