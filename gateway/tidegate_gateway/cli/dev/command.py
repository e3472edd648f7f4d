"""`tidegate dev`: runs one gateway on this machine, without any setup."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegate_runtime.addresses import url_host
from tidegate_runtime.listening import PortInUse
from tidegate_runtime.settings_texts import BadSource

from ...app import Running
from ...settings.broker_settings import BrokerSettings
from ...settings.settings_sources import gather, settings_in
from ..banner import banner, banner_json
from ..called_as import called_as
from ..running import run_to_end
from .pipeline import PipelineProcess, default_log, default_store, shown_command, what_is_in_memory

DISK_CACHE_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class DevOptions:
    """The command's options; object_store and log are URLs."""

    port: int
    host: str
    admin_port: int
    data: Path
    object_store: str | None
    log: str | None
    memory: bool
    pipeline: bool = False

    @property
    def data_folder(self) -> Path | None:
        """The folder of the data; None with --memory."""
        return None if self.memory else self.data

    def texts(self) -> dict[str, str]:
        """Return the options as settings.

        Defaults are Kafka's, but the first rebalance of a group has no delay.
        """
        host = url_host(self.host)
        cache = {} if self.memory else _disk_cache(self.data)
        store = "memory:" if self.memory else default_store(self.data)
        log = "memory:" if self.memory else default_log(self.data)
        return {
            "listeners": f"PLAINTEXT://{host}:{self.port}",
            "allow.plaintext.listeners": "true",  # `--host` was asked for
            "admin.listener": f"{host}:{self.admin_port}",
            "object.store": self.object_store or store,
            "metadata.log": self.log or log,
            "group.initial.rebalance.delay.ms": "0",
            **cache,
        }


def _disk_cache(data: Path) -> dict[str, str]:
    """Return the settings of a small disk cache: the store is mostly a local folder itself."""
    return {"disk.cache.dir": f"{data}/cache", "disk.cache.max.bytes": str(DISK_CACHE_BYTES)}


def run_dev(
    options: DevOptions, assignments: Sequence[str], *, as_json: bool, log_level: str
) -> int:
    """Run the gateway; return the exit code."""
    pipeline = PipelineProcess(log_level=log_level)

    def announce(running: Running) -> None:
        print(_announcement(options, running, as_json=as_json), flush=True)
        if options.pipeline:
            pipeline.start(running.settings)

    def settings() -> BrokerSettings:
        warn_of_environment(os.environ)
        found = gather(defaults=options.texts(), environ={}, assignments=assignments)
        if options.pipeline and (name := what_is_in_memory(found)):
            raise BadSource(
                f"--pipeline: a pipeline cannot read a store or log in memory: change {name}, or"
                " leave out --pipeline"
            )
        return found

    with pipeline:
        return run_to_end(
            settings,
            options.data_folder,
            announce,
            log_level=log_level,
            advice=lambda error: _advice(options, error),
        )


def warn_of_environment(environ: Mapping[str, str]) -> None:
    """Warn that `dev` does not read settings from the environment, if it holds some.

    They may be meant for a gateway of `serve` on this machine, not for a trial.
    """
    names = settings_in(environ)
    if names:
        text = f"{', '.join(names)}: only `serve` reads settings from the environment"
        print(f"tidegate: {text}; here give them as --set NAME=VALUE", file=sys.stderr)


def _announcement(options: DevOptions, running: Running, *, as_json: bool) -> str:
    if as_json:
        return banner_json(running)
    line = _pipeline_line(options, running.settings)
    return banner(running, keeps_data=not options.memory, pipeline=line)


def _pipeline_line(options: DevOptions, settings: BrokerSettings) -> str:
    if what_is_in_memory(settings):
        return ""
    if options.pipeline:
        return "A pipeline merges small objects into large ones, in a process of its own."
    command = shown_command(settings, options.data, called_as(sys.argv[0]))
    return f"To have small objects merged into large ones: {command}"


def _advice(options: DevOptions, error: BaseException) -> str:
    if not isinstance(error, PortInUse):
        return ""
    option = "--admin-port" if f"port {options.admin_port} " in str(error) else "--port"
    return f"; choose another with {option}, or {option} 0 for any free port"
