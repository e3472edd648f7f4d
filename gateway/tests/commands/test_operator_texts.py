"""Texts for operators: at the start of `serve`, and about a peer that refuses the token."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.worlds.app_world import tidegate
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.forwarding.peers import PeerUnavailable
from tidegate_gateway.app import Running
from tidegate_gateway.cli.banner import banner, serve_banner
from tidegate_gateway.fetch.lending.object_asks import ObjectAsk
from tidegate_gateway.peers.peers import lent_bytes
from tidegate_gateway.produce.write_pace import write_pace
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_runtime.http.values import HttpAnswer


def running(**settings: str) -> Running:
    return Running(
        version="0.1.0",
        endpoints=(Endpoint("PLAINTEXT", "gw-a", 9092),),
        admin_url=None,
        cluster_id="of-tests",
        settings=BrokerSettings({name.replace("_", "."): text for name, text in settings.items()}),
        data=Path("lib/gw1"),
    )


def test_serve_says_where_records_and_log_are_and_shows_no_secret() -> None:
    text = serve_banner(
        running(
            node_id="3",
            object_store="s3://records/prod?region=eu-central-1",
            metadata_log="postgres://tidegate:hidden@db:5432/tidegate",
        )
    )
    assert "gateway 3 of cluster of-tests" in text
    assert "object store       s3://records/prod\n" in text
    assert "metadata log       postgres://db:5432/tidegate\n" in text
    assert "records stay in the object store" in text
    assert "./lib/gw1 keeps this gateway's identity" in text
    for wrong in ("hidden", "greetings", "the data stays in"):
        assert wrong not in text


def test_the_cost_of_small_writes_is_named_where_requests_cost_money() -> None:
    stores = {"object_store": "s3://b/p", "metadata_log": "sqlite:log.db"}
    assert not write_pace(running(**stores).settings)
    on_s3 = {**stores, "wal_inline_max_bytes": "0"}
    text = banner(running(**on_s3), keeps_data=True)
    assert "take some 125 ms each: small objects are limited to 8 PUTs a second" in text
    assert "wal.put.budget.per.second, 0 for no limit" in text
    slow = running(**on_s3, wal_put_budget_per_second="0.5")
    assert "some 250 ms each: small objects are limited to 0.5 PUTs" in write_pace(slow.settings)
    assert not write_pace(running(**on_s3, wal_put_budget_per_second="0").settings)
    on_files = running(object_store="file:o", metadata_log="sqlite:log.db")
    assert "PUTs a second" not in banner(on_files, keeps_data=True)


def test_serve_in_memory_says_that_it_forgets() -> None:
    text = serve_banner(running(object_store="memory:", metadata_log="sqlite:log.db"))
    assert text.endswith("Ctrl+C stops, and loses all data in memory: records.")


def test_a_peer_that_refuses_the_token_is_understood() -> None:
    ask = ObjectAsk("a", 0, 10, 10)
    with pytest.raises(PeerUnavailable, match=r"gw-b:9645 answered 401: its peer\.token is not"):
        lent_bytes("gw-b:9645", HttpAnswer(401, b"who?"), ask)
    with pytest.raises(PeerUnavailable, match="answered 500: oh dear"):
        lent_bytes("gw-b:9645", HttpAnswer(500, b"oh dear\n"), ask)


def test_a_taken_port_names_all_settings_that_have_one(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        peer = f"peer.listener=127.0.0.1:{taken.getsockname()[1]}"
        settings = ("--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", peer)
        done = tidegate("serve", *settings, cwd=tmp_path)
    assert done.returncode == 1
    assert "choose another in listeners, admin.listener or peer.listener" in done.stderr
