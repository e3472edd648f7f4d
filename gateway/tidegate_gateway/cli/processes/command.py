"""`tidegate serve --processes N`: the supervisor's command."""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import trio
from prometheus_client.metrics_core import Metric

from tidegate_coordination.refusals import first_of
from tidegate_runtime.addresses import ListenerAddress, host_port, machine_names, url_host
from tidegate_runtime.listening import Listener, bind_listener
from tidegate_runtime.log_lines import LEVELS, configure_logs
from tidegate_runtime.output import PROCESS_OUTPUT
from tidegate_runtime.output_metrics import output_metrics
from tidegate_runtime.secret import Secret
from tidegate_runtime.service_manager import of_this_process
from tidegate_runtime.settings_texts import BadSource

from ...admin.admin_server import admin_slots, serve_admin
from ...refusals_to_start import sentence_of
from ...settings.broker_settings import BrokerSettings
from ...settings.inner_listeners import (
    ADMIN_LISTENER,
    has_tls,
    refuse_token_in_clear,
)
from ...settings.known_hosts import known_hosts
from ...settings.settings_sources import PREFIX
from ...tls.metrics import tls_metrics
from ...tls.tls_listeners import TlsListeners, open_tls_listeners
from ...upkeep.upkeep import Upkeep
from ...work.blocking import InThread
from ..dev_zones.plan import END_SECONDS
from .pages import ProcessPages
from .plan import check_processes, process_count
from .supervisor import Supervised, Supervisor


@PROCESS_OUTPUT.queued()
def run_processes(
    make_settings: Callable[[], BrokerSettings],
    processes: str,
    words: Sequence[str],
    *,
    as_json: bool,
    log_level: str,
) -> int:
    """Run gateways until a signal; return the exit code.

    Args:
      make_settings: returns the settings that all gateways have in common; may raise as gather()
        does.
      processes: how many; see process_count().
      words: the command line of a gateway, without the number of its process.
    """
    try:
        if log_level not in LEVELS:
            raise BadSource(f"--log-level {log_level}: choose one of {', '.join(LEVELS)}")
        configure_logs(log_level)
        settings, count = make_settings(), process_count(processes)
        check_processes(settings, count)
        # The gateways' admin listeners are on loopback, and there a token in clear is allowed.
        refuse_token_in_clear(settings)
        return trio.run(partial(_run, settings, count, words, as_json=as_json))
    except Exception as error:
        sentence = sentence_of(first_of(error))
        if sentence is None:
            raise
        print(f"tidegate: {sentence}", file=sys.stderr)
        return 1


async def _run(settings: BrokerSettings, count: int, words: Sequence[str], *, as_json: bool) -> int:
    stop_seconds = settings.int("drain.timeout.ms") / 1000 + END_SECONDS
    token, environ = token_for(settings)
    gateways = [
        Supervised(each, [*words, "--process", str(each)], stop_seconds, environ=environ)
        for each in range(1, count + 1)
    ]
    admin = _admin(settings)
    tls = _tls_of_admin(settings) if admin else TlsListeners()

    async def pages() -> None:
        if admin is None:
            return
        admin.listen()
        found = ProcessPages(
            lambda: [each.asked for each in gateways],
            token,
            version("tidegate"),
            partial(_metrics, tls),
        )
        async with trio.open_nursery() as nursery:
            if len(tls):
                keep_running = Upkeep().keep_running
                nursery.start_soon(keep_running, "look for new certificates", tls.run)
            tls_of_admin, own = tls.inner(ADMIN_LISTENER), settings.secret("admin.token")
            hosts = known_hosts(settings, *machine_names())
            nursery.start_soon(serve_admin, admin, found, tls_of_admin, own, admin_slots(), hosts)

    def announce() -> None:
        said, url = [each.said for each in gateways], _url(admin, tls)
        print(_json(said, url) if as_json else _banner(said, url), flush=True)

    try:
        look = tls.look if has_tls(settings) else None
        supervisor = Supervisor(gateways, of_this_process(), look)
        return await supervisor.run(pages, announce)
    finally:
        if admin is not None:
            admin.close()


def token_for(settings: BrokerSettings) -> tuple[Secret, dict[str, str]]:
    """Return the token for the gateways' admin pages, and variables that give it to the gateways.

    If admin.token is not set, the token is a random one, since other users of this machine reach
    loopback, too.
    """
    token = settings.secret("admin.token")
    if token:
        return token, {}
    made = secrets.token_hex(16)
    return Secret(made), {f"{PREFIX}ADMIN_TOKEN": made}


def _metrics(tls: TlsListeners) -> Iterator[Metric]:
    yield from output_metrics()
    if len(tls):
        yield from tls_metrics(tls)


def _admin(settings: BrokerSettings) -> Listener | None:
    text = settings.text("admin.listener")
    if not text:
        return None
    host, port = host_port("admin.listener", text)
    return bind_listener(ListenerAddress("ADMIN", host, port))


def _tls_of_admin(settings: BrokerSettings) -> TlsListeners:
    """Return only the admin listener: the gateways serve the other listeners."""
    blocking = InThread()
    found = open_tls_listeners(settings, [], time.time, blocking).inner(ADMIN_LISTENER)
    inner = [found] if found is not None else []
    return TlsListeners(inner=inner, wall_clock=time.time, blocking=blocking)


def _url(admin: Listener | None, tls: TlsListeners) -> str | None:
    if admin is None:
        return None
    scheme = "http" if tls.inner(ADMIN_LISTENER) is None else "https"
    return f"{scheme}://{url_host(admin.address.host)}:{admin.address.port}"


def _servers(said: Sequence[Any]) -> str:
    return ",".join(str(each["bootstrap_servers"]) for each in said)


def _json(said: Sequence[Any], admin_url: str | None) -> str:
    first = said[0]
    common = ("version", "object_store", "metadata_log", "cluster_id")
    return json.dumps(
        {
            **{name: first[name] for name in common},
            "bootstrap_servers": _servers(said),
            "admin_url": admin_url,
            "pid": os.getpid(),
            "processes": [each["pid"] for each in said],
        }
    )


def _banner(said: Sequence[Any], admin_url: str | None) -> str:
    first = said[0]
    return "\n".join(
        [
            f"Tidegate {first['version']}, {len(said)} gateways of cluster {first['cluster_id']}",
            "",
            f"  bootstrap servers  {_servers(said)}",
            f"  admin              {admin_url or 'off (see admin.listener)'}",
            f"  object store       {first['object_store']}",
            f"  metadata log       {first['metadata_log']}",
            "",
            "Ctrl+C stops them one after the other.",
        ]
    )
