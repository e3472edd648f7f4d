"""Options of commands in several files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

# The default folders of `dev` and `serve`.  Other commands use the folder of `dev` by default.
DEV_DATA: Final = Path("tidegate-data")
SERVE_DATA: Final = Path("data")

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
_LOG = typer.Option(
    "--log",
    metavar="URL",
    help="sqlite:FILE, postgres://..., s3://..., dynamodb://..., http://... or a plug-in's.",
)
_STORE = typer.Option("--object-store", metavar="URL", help="file:DIR or s3://BUCKET/PREFIX.")
LogThatExists = Annotated[str | None, _LOG]
StoreThatExists = Annotated[str | None, _STORE]
DataOfCluster = Annotated[Path, typer.Option(metavar="DIR", help="Folder of a gateway's data.")]
NeededLog = Annotated[str, _LOG]
NeededStore = Annotated[str, _STORE]
Admins = Annotated[
    list[str] | None,
    typer.Option(
        "--admin",
        metavar="HOST:PORT",
        help="A gateway's admin.listener; may be repeated.",
        show_default="127.0.0.1:9644",
    ),
]
TokenFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Holds admin.token.")]
CaFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The pages come over TLS; certificates to trust, in PEM."),
]
