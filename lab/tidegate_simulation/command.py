"""The command `tidegate simulate`, plugged into `tidegate`.

This module holds only the options.  It imports the code when the command is called, so that
`tidegate --help` stays quick.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from .plans.bounds import MAX_ZONES

app = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


def _seed_range(text: str) -> range:
    """Read "7" or "1-100"."""
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if found is None:
        raise typer.BadParameter("write A-B, as in 1-100")
    seeds = range(int(found[1]), int(found[2] or found[1]) + 1)
    if not seeds:
        raise typer.BadParameter("the last seed is below the first")
    return seeds


@app.callback()
def main(
    seeds: Annotated[str, typer.Option(help="First and last seed, A-B.")] = "1-20",
    operations: Annotated[
        int, typer.Option(min=1, help="Operations of all clients of a seed.")
    ] = 150,
    trace: Annotated[
        Path | None, typer.Option(help="Write the trace of a single seed to this file.")
    ] = None,
    zones: Annotated[
        int,
        typer.Option(min=0, max=MAX_ZONES, help="Spread gateways and clients over N zones."),
    ] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one a CPU.")] = None,
    *,
    decisions: Annotated[
        bool,
        typer.Option(
            "--decisions",
            help="Only what decides and folds, without tasks, network and store: 20 times as fast.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run gateways in a simulated world of faults, and check all that clients see.

    Each seed has a world of its own: three gateways, or more with --zones, up to two drivers of the
    pipeline, one metadata log, one object store, and clients whose history is checked.  A seed
    gives the same run on every machine.  The exit code is 1 if a gateway broke a guarantee, or if a
    drawn fault did not land.
    """
    wanted = _seed_range(seeds)
    if trace is not None and len(wanted) > 1:
        raise typer.BadParameter("--trace needs a single seed")
    if decisions:
        if trace is not None or zones:
            raise typer.BadParameter("--decisions has no trace and no zones")
        from .decisions.run_many import run_many

        raise typer.Exit(run_many(wanted, operations, jobs, as_json=as_json))
    from .run_seeds import SeedsOptions, run_seeds

    options = SeedsOptions(wanted, operations, trace, zones, jobs)
    raise typer.Exit(run_seeds(options, as_json=as_json))
