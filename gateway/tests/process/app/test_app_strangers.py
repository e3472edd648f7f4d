"""Many silent connections at the listeners for operators and for other gateways."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from tests.worlds.app_world import PATIENCE_SECONDS, serving
from tests.worlds.greetings import consume, produce

COUNT = 300
SHARED = (
    *("serve", "--set", "object.store=file:objects", "--set", "forwarding=on"),
    *("--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", "admin.listener=127.0.0.1:0"),
    *("--set", "peer.listener=127.0.0.1:0", "--set", "peer.token=shared-secret"),
)
TLS = (
    *("--set", "peer.security.protocol=SSL", "--set", "ssl.keystore.location=own.pem"),
    *("--set", "ssl.truststore.location=ca.pem"),
    *("--set", "listener.name.peer.ssl.client.auth=required"),
)


@contextmanager
def crowd(address: str) -> Iterator[None]:
    """Connect from a few addresses, and say nothing."""
    host, _, port = address.rpartition(":")
    with ExitStack() as stack:
        for each in range(COUNT):
            source = (f"127.0.1.{1 + each % 3}", 0)
            silent = socket.create_connection((host, int(port)), PATIENCE_SECONDS, source)
            stack.enter_context(silent)
        yield


@pytest.mark.parametrize("more", [(), TLS])
def test_health_and_a_starting_gateway_get_answers_beside_a_crowd_of_strangers(
    more: tuple[str, ...], tmp_path: Path
) -> None:
    """A gateway that forwards starts while peer.listener has 300 silent connections."""
    (tmp_path / "token").write_text("shared-secret\n")
    authority = trustme.CA()
    own = authority.issue_cert("localhost", "127.0.0.1")
    (tmp_path / "own.pem").write_bytes(own.private_key_and_cert_chain_pem.bytes())
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    log = ("--set", "node.id=1", "--set", "metadata.log=sqlite:metadata.db", "--data", "data-1")
    with serving(*SHARED, *more, *log, cwd=tmp_path) as first:
        peer, admin = str(first.said["peer"]), urlsplit(str(first.said["admin_url"])).netloc
        with crowd(peer), crowd(admin):
            assert first.get("/livez") == (200, "ok\n")
            url = f"forward:{peer}?token-file=token"
            url += "&ca-file=ca.pem&key-file=own.pem" if more else ""
            through = ("--set", "node.id=2", "--set", f"metadata.log={url}", "--data", "data-2")
            with serving(*SHARED, *more, *through, cwd=tmp_path) as second:
                produce(second.servers, "a", "b")
                assert consume(first.servers, 2) == ["a", "b"]
            assert first.get("/readyz") == (200, "ready\n")
            closed = [
                line
                for line in first.get("/metrics")[1].splitlines()
                if line.startswith("tidegate_strangers_closed_total{")
            ]
            assert any('door="PEER"' in line and not line.endswith(" 0.0") for line in closed)
