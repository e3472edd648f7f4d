"""Options of `tidegate link` that both files of its commands use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Name = Annotated[str, typer.Argument(metavar="NAME", help="The link's name.")]
Properties = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Properties of Kafka's clients: security.protocol, sasl.mechanism and so on.",
    ),
]
