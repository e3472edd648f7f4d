"""`tidegate serve`: a gateway as the settings say."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..app import Running
from ..broker_settings import BrokerSettings
from ..listener_settings import DEFAULT_LISTENERS
from ..server import PortInUse
from ..settings_sources import gather
from .banner import banner, banner_json
from .running import run_to_end


def run_serve(
    config: Path | None,
    properties: Path | None,
    data: Path,
    assignments: Sequence[str],
    *,
    as_json: bool,
    log_level: str,
) -> int:
    """Run it; return the exit code."""

    def announce(running: Running) -> None:
        text = banner_json(running) if as_json else banner(running, keeps_data=True)
        print(text, flush=True)

    def settings() -> BrokerSettings:
        return serve_settings(config, properties, data, assignments)

    return run_to_end(settings, data, announce, log_level=log_level, advice=_advice)


def serve_settings(
    config: Path | None, properties: Path | None, data: Path, assignments: Sequence[str]
) -> BrokerSettings:
    """Return the settings that `serve` runs with.

    Raises:
      BadSource: see gather().
    """
    defaults = {
        "listeners": DEFAULT_LISTENERS,
        "object.store": f"file:{data}/objects",
        "metadata.log": f"sqlite:{data}/metadata.db",
    }
    return gather(
        defaults=defaults,
        toml_file=config,
        properties_file=properties,
        environ=os.environ,
        assignments=assignments,
    )


def _advice(error: BaseException) -> str:
    if not isinstance(error, PortInUse):
        return ""
    return "; choose another in listeners or admin.listener"
