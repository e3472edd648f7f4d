"""The text that a gateway prints once clients may connect, in the order in which people need it."""

from __future__ import annotations

import json
import os
import sys

from tidegate_runtime.addresses import url_host
from tidegate_runtime.shown import shown_log, shown_path, shown_store

from ..app import Running
from ..produce.write_pace import write_pace
from .called_as import called_as
from .kafka.options import DEFAULT_BOOTSTRAP

TOPIC = "greetings"


def bootstrap_servers(running: Running) -> str:
    """Return the addresses for the clients' bootstrap.servers."""
    return ",".join(f"{url_host(each.host)}:{each.port}" for each in running.endpoints)


def serve_banner(running: Running) -> str:
    """Return the text for a person who runs a gateway of a cluster."""
    node_id = running.settings.int("node.id")
    lines = [
        f"Tidegate {running.version}, gateway {node_id} of cluster {running.cluster_id}",
        "",
        *_places(running),
        "",
        f"Ctrl+C stops{_what_is_kept(running)}.",
    ]
    return "\n".join(lines)


def _what_is_kept(running: Running) -> str:
    in_memory = [
        name
        for setting, name in (("object.store", "records"), ("metadata.log", "the metadata log"))
        if _address(running, setting).startswith("memory:")
    ]
    if in_memory:
        return f", and loses all data in memory: {' and '.join(in_memory)}"
    own = f"; {shown_path(running.data)} keeps this gateway's identity" if running.data else ""
    return f"; records stay in the object store, metadata in the metadata log{own}"


def banner(running: Running, *, keeps_data: bool, pipeline: str = "") -> str:
    """Return the text for a person who tries Tidegate.

    pipeline: a line about the pipeline; "" for none.
    """
    servers = bootstrap_servers(running)
    option = f"--bootstrap-server {servers}"
    kept = f"data in {shown_path(running.data)}" if running.data else "data in memory only"
    stop = (
        f"Ctrl+C stops; the data stays in {shown_path(running.data)}."
        if keeps_data and running.data
        else "Ctrl+C stops, and loses all data."
    )
    pace = write_pace(running.settings)
    called = called_as(sys.argv[0])
    at = "" if servers == DEFAULT_BOOTSTRAP else f" --bootstrap {servers}"
    lines = [
        f"Tidegate {running.version}, {kept}",
        "",
        *_places(running),
        "",
        *([pace, ""] if pace else []),
        "Write and read:",
        "",
        f"  echo hello | {called} topic produce {TOPIC}{at}",
        f"  {called} topic consume {TOPIC}{at}",
        "",
        "or with Kafka's own tools:",
        "",
        f"  kafka-console-producer.sh {option} --topic {TOPIC}",
        f"  kafka-console-consumer.sh {option} --topic {TOPIC} --from-beginning",
        "",
        *([pipeline, ""] if pipeline else []),
        stop,
    ]
    return "\n".join(lines)


def _places(running: Running) -> list[str]:
    return [
        f"  bootstrap servers  {bootstrap_servers(running)}",
        f"  admin              {running.admin_url or 'off (see admin.listener)'}",
        f"  object store       {shown_store(_address(running, 'object.store'))}",
        f"  metadata log       {shown_log(_address(running, 'metadata.log'))}",
    ]


def banner_json(running: Running) -> str:
    """Return the same as one line of JSON."""
    return json.dumps(
        {
            "version": running.version,
            "data": str(running.data) if running.data else None,
            "bootstrap_servers": bootstrap_servers(running),
            "admin_url": running.admin_url,
            "peer": f"{url_host(running.peer.host)}:{running.peer.port}" if running.peer else None,
            "object_store": shown_store(_address(running, "object.store")),
            "metadata_log": shown_log(_address(running, "metadata.log")),
            "cluster_id": running.cluster_id,
            "pid": os.getpid(),
        }
    )


def _address(running: Running, setting: str) -> str:
    """Return an address that may hold a secret, to be shown without it."""
    return running.settings.secret(setting).reveal()
