"""Options of the commands that are clients of a Kafka cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
"""Where `tidegate dev` listens."""
Bootstrap = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT,...",
        help="Gateways, or brokers of any Kafka cluster.",
        show_default=DEFAULT_BOOTSTRAP,
    ),
]
ClientFile = Annotated[
    Path | None,
    typer.Option(
        "--properties", metavar="FILE", help="Properties of a Kafka client, for TLS and SASL."
    ),
]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Its group.id.")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Its name.")]


@dataclass(frozen=True, slots=True)
class KafkaPlace:
    """The options that say where the cluster is, as typed.  properties: a file."""

    bootstrap: str | None = None
    properties: Path | None = None
