"""`tidegate serve`: runs a gateway from settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tidegate_runtime.listening import PortInUse

from ..app import Running
from ..settings.broker_settings import BrokerSettings
from ..settings.listener_settings import DEFAULT_LISTENERS
from ..settings.settings_sources import gather
from .banner import banner_json, serve_banner
from .end_of_input import stop_at_end_of_input
from .processes.plan import data_of, settings_of
from .running import run_to_end


def run_serve(
    config: Path | None,
    properties: Path | None,
    data: Path,
    assignments: Sequence[str],
    *,
    as_json: bool,
    log_level: str,
    stop_at_eof: bool = False,
    process: int = 0,
) -> int:
    """Run the gateway; return the exit code.

    stop_at_eof: stop, as at SIGTERM, at the end of standard input, since then the parent process
    has ended.  process: the process's number if several run on this machine; otherwise 0.
    """

    def announce(running: Running) -> None:
        text = banner_json(running) if as_json else serve_banner(running)
        print(text, flush=True)

    def settings() -> BrokerSettings:
        common = serve_settings(config, properties, data, assignments)
        return settings_of(common, process) if process else common

    if stop_at_eof:
        stop_at_end_of_input()
    own_data = data_of(data, process) if process else data
    return run_to_end(
        settings, own_data, announce, log_level=log_level, advice=_advice, process=process
    )


def run_several(
    config: Path | None,
    properties: Path | None,
    data: Path,
    assignments: Sequence[str],
    processes: str,
    *,
    as_json: bool,
    log_level: str,
) -> int:
    """Run several gateways under one supervisor; return the exit code."""
    from .processes.command import run_processes

    words = [sys.executable, "-m", "tidegate_gateway", "serve", "--stop-at-eof", "--json"]
    words += ["--data", str(data), "--log-level", log_level]
    for option, path in (("--config", config), ("--properties", properties)):
        words += [option, str(path)] if path is not None else []
    for each in assignments:
        words += ["--set", each]

    def settings() -> BrokerSettings:
        return serve_settings(config, properties, data, assignments)

    return run_processes(settings, processes, words, as_json=as_json, log_level=log_level)


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
    return "; choose another in listeners, admin.listener or peer.listener"
