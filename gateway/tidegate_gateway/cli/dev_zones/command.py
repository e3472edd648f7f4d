"""`tidegate dev --zones N`: runs gateways of N zones on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import trio

from tidegate_runtime.log_lines import LEVELS, configure_logs
from tidegate_runtime.output import PROCESS_OUTPUT
from tidegate_runtime.settings_texts import BadSource

from ...instance import hold_data_folder, new_instance_key
from ...refusals_to_start import sentence_of
from ...settings.broker_settings import BrokerSettings
from ..called_as import called_as
from ..dev.command import DevOptions, warn_of_environment
from ..dev.pipeline import PipelineProcess, default_log, default_store, what_is_in_memory
from .cluster import LocalCluster, StartFailed, Voice
from .plan import GatewayPlan, Places, Shape, make_plans
from .real import MISLEADING, running_servers
from .server import ServerFailed
from .text import banner, json_text, status_text


@PROCESS_OUTPUT.queued()
def run_dev_zones(
    options: DevOptions,
    zones: int,
    assignments: Sequence[str],
    *,
    is_real: bool,
    as_json: bool,
    log_level: str,
) -> int:
    """Run the gateways; return the exit code."""
    run = _Run(options, zones, assignments, is_real=is_real, as_json=as_json, log_level=log_level)
    try:
        return run.to_end()
    except KeyboardInterrupt:
        return 1  # before the gateways served
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        print(f"tidegate: {sentence}", file=sys.stderr)
        return 1


def _sentence(error: BaseException) -> str | None:
    return str(error) if isinstance(error, ServerFailed) else sentence_of(error)


class _Run:
    def __init__(
        self,
        options: DevOptions,
        zones: int,
        assignments: Sequence[str],
        *,
        is_real: bool,
        as_json: bool,
        log_level: str,
    ) -> None:
        self._options = options
        self._zones = zones
        self._assignments = assignments
        self._is_real = is_real
        self._as_json = as_json
        self._log_level = log_level

    def to_end(self) -> int:
        options = self._options
        self._check()
        configure_logs(self._log_level)
        warn_of_environment(os.environ)
        with ExitStack() as stack:
            stack.callback(hold_data_folder(options.data).close)
            shape = Shape(self._zones, options.host, options.port, options.admin_port, options.data)
            _ = make_plans(shape, self._places(), self._assignments)  # raises for wrong options
            return trio.run(self._main, shape)

    def _check(self) -> None:
        options = self._options
        if self._log_level not in LEVELS:
            raise BadSource(f"--log-level {self._log_level}: choose one of {', '.join(LEVELS)}")
        if not self._zones:
            raise BadSource("--real needs --zones, such as --zones 3")
        if self._is_real and (options.object_store or options.log):
            raise BadSource("--real brings its own --object-store and --log: leave them out")
        urls = {"object.store": options.object_store or "", "metadata.log": options.log or ""}
        if options.memory or what_is_in_memory(BrokerSettings(urls)):
            raise BadSource(
                "--zones: gateways cannot share a store or log in memory: leave out --memory and"
                " memory:"
            )

    def _places(self) -> Places:
        data = self._options.data
        return Places(
            self._options.object_store or default_store(data),
            self._options.log or default_log(data),
            new_instance_key(),
        )

    async def _main(self, shape: Shape) -> int:
        """Start the servers, then the gateways; they end in reverse order."""
        if not self._is_real:
            plans = make_plans(shape, self._places(), self._assignments)
            return await self._serve(plans, None)
        for name in MISLEADING:
            _ = os.environ.pop(name, None)
        async with running_servers(shape.data) as servers:
            places = Places(servers.object_store, servers.log, new_instance_key())
            # for child processes, and for commands that read the metadata log
            os.environ.update(servers.variables)
            plans = make_plans(shape, places, self._assignments)
            return await self._serve(plans, servers.environment_file)

    async def _serve(self, plans: tuple[GatewayPlan, ...], environment: Path | None) -> int:
        data = self._options.data
        voice = Voice(as_json=self._as_json)
        cluster = LocalCluster(plans, voice, log_level=self._log_level)
        pipeline = PipelineProcess(log_level=self._log_level)

        def announce() -> None:
            members = cluster.members
            if self._as_json:
                text = json_text(members, data, environment=environment)
            else:
                called = called_as(sys.argv[0])
                text = banner(members, data, environment=environment, called=called)
            print(text, flush=True)
            if self._options.pipeline:
                pipeline.start(BrokerSettings(plans[0].texts))

        def show_status() -> None:
            if self._as_json:
                print(json_text(cluster.members, data, environment=environment), flush=True)
            else:
                print(status_text(cluster.members), flush=True)

        code = 1
        try:
            with pipeline:  # it ends after the gateways, while the servers still run
                code = await cluster.run(announce, show_status)
        except* StartFailed:
            pass  # the warning was printed when the process ended
        return code
