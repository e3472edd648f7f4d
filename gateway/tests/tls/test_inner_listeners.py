"""TLS between gateways and for operators: settings, handshakes at both ends, new certificates."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme
from structlog.testing import capture_logs

from tests.worlds.security.tls_world import authority, pem
from tidegate_coordination.forwarding.leaders import PEER_LISTENER
from tidegate_gateway.admin.admin_access import refusal_of
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.settings.inner_listeners import (
    ADMIN_LISTENER,
    inner_tls_listeners,
    refuse_token_in_clear,
)
from tidegate_gateway.tls.streams import dialled_by_tls, has_certificate, secured
from tidegate_gateway.tls.tls_listener import TlsListener
from tidegate_gateway.tls.tls_listeners import TlsListeners, open_tls_listeners
from tidegate_gateway.work.blocking import Inline
from tidegate_runtime.http.tcp import tcp_connector
from tidegate_runtime.http.values import HttpRequest
from tidegate_runtime.secret import Secret
from tidegate_runtime.settings_texts import SettingsError

NOW = 1_800_000_000.0
SECONDS = 10.0
PEER_TLS = {"peer.security.protocol": "SSL"}


def localhost(ca: trustme.CA | None = None) -> str:
    names: dict[str, Any] = {"common_name": "gateway", "organization_unit_name": "tests"}
    return pem((ca or authority().ca).issue_cert("localhost", organization_name="acme", **names))


def opened(folder: Path, **settings: str) -> TlsListeners:
    """Return listeners with a certificate for localhost.  settings: names with _ for dots."""
    store, trusted = folder / "own.pem", folder / "trusted.pem"
    store.write_text(localhost())
    trusted.write_text(authority().root)
    texts = {
        "ssl.keystore.location": str(store),
        "ssl.truststore.location": str(trusted),
        **PEER_TLS,
        **{name.replace("_", "."): text for name, text in settings.items()},
    }
    return open_tls_listeners(BrokerSettings(texts), ["PLAINTEXT"], lambda: NOW, Inline())


def peer_of(found: TlsListeners) -> TlsListener:
    peer = found.inner(PEER_LISTENER)
    assert peer is not None
    return peer


@asynccontextmanager
async def serving(tls: TlsListener) -> AsyncIterator[int]:
    """Run a server that tells each client whether it showed a certificate; yield its port."""

    async def serve(stream: trio.SocketStream) -> None:
        found = await secured(stream, tls)
        if found is not None:
            with trio.fail_after(SECONDS):
                await found.send_all(b"known" if has_certificate(found) else b"stranger")
                await found.aclose()

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def said_to(dialler: TlsListener, port: int, host: str = "localhost") -> bytes:
    dial = dialled_by_tls(lambda _host, port: tcp_connector("127.0.0.1", port), dialler)
    with trio.fail_after(SECONDS):
        stream = await dial(host, port)()
        async with stream:
            return bytes(await stream.receive_some())


async def test_gateways_present_their_certificates_to_each_other(tmp_path: Path) -> None:
    for auth, said in (("none", b"stranger"), ("requested", b"known"), ("required", b"known")):
        peer = peer_of(opened(tmp_path, listener_name_peer_ssl_client_auth=auth))
        async with serving(peer) as port:
            assert await said_to(peer, port) == said


async def test_a_gateway_of_another_authority_is_refused_at_both_ends(tmp_path: Path) -> None:
    ours = peer_of(opened(tmp_path, listener_name_peer_ssl_client_auth="required"))
    folder = tmp_path / "other"
    folder.mkdir()
    other = peer_of(opened(folder))
    foreign = trustme.CA()
    (folder / "own.pem").write_text(localhost(foreign))
    os.utime(folder / "own.pem", (1, 1))
    found = other.look(NOW)
    assert found is not None
    other.replace(found)
    async with serving(ours) as port:
        # In TLS 1.3 the alert arrives after the client has finished its handshake.
        with capture_logs() as logs, suppress(trio.BrokenResourceError):
            assert await said_to(other, port) == b""
        [line] = logs
        assert line["listener"] == PEER_LISTENER
        assert "unable to get local issuer certificate" in line["reason"]
        assert ours.failed_handshakes == 1
    async with serving(other) as port:
        with pytest.raises(OSError, match="TLS: certificate verify failed"):
            await said_to(ours, port)


async def test_the_host_must_be_the_certificates_unless_the_check_is_off(tmp_path: Path) -> None:
    peer = peer_of(opened(tmp_path))
    lax = peer_of(opened(tmp_path, listener_name_peer_ssl_endpoint_identification_algorithm=""))
    async with serving(peer) as port:
        with pytest.raises(OSError, match=r"certificate verify failed: Hostname mismatch"):
            await said_to(peer, port, host="elsewhere.example")
        assert await said_to(lax, port, host="elsewhere.example") == b"stranger"


async def test_what_speaks_no_tls_is_closed_and_logged(tmp_path: Path) -> None:
    peer = peer_of(opened(tmp_path))
    async with serving(peer) as port:
        with capture_logs() as logs, trio.fail_after(SECONDS):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(b"GET /metrics HTTP/1.1\r\n\r\n")
            while await stream.receive_some():
                pass
            await stream.aclose()
        assert [(each["listener"], each["reason"]) for each in logs] == [("PEER", "http request")]


async def test_a_handshake_that_is_cancelled_closes_its_connection(tmp_path: Path) -> None:
    peer = peer_of(opened(tmp_path))
    ours, theirs = trio.socket.socketpair()
    stream = trio.SocketStream(theirs)
    with trio.CancelScope() as scope:
        scope.cancel()
        await secured(stream, peer)
    assert scope.cancelled_caught
    assert stream.socket.fileno() == -1
    ours.close()


async def test_a_new_certificate_is_presented_at_both_ends(tmp_path: Path) -> None:
    listeners = opened(tmp_path, listener_name_peer_ssl_client_auth="required")
    peer = peer_of(listeners)
    before = peer.current
    (tmp_path / "own.pem").write_text(localhost())
    os.utime(tmp_path / "own.pem", (1, 1))
    await listeners.look()
    assert peer.current is not before
    assert peer.current.dialling is not before.dialling
    async with serving(peer) as port:
        assert await said_to(peer, port) == b"known"


def test_only_the_listener_of_peers_dials(tmp_path: Path) -> None:
    found = opened(tmp_path, admin_security_protocol="SSL")
    assert [each.name for each in found] == [PEER_LISTENER, ADMIN_LISTENER]
    admin = found.inner(ADMIN_LISTENER)
    assert admin is not None
    assert admin.current.dialling is None
    assert PEER_LISTENER not in found  # Kafka clients do not use this listener


def test_each_has_stores_of_its_own(tmp_path: Path) -> None:
    own = tmp_path / "admin.pem"
    own.write_text(pem(authority().ca.issue_cert("admin.test", common_name="admin")))
    found = opened(
        tmp_path,
        admin_security_protocol="SSL",
        listener_name_admin_ssl_keystore_location=str(own),
    )
    names = [each.current.chain[0].alt_names for each in found]
    assert [any("admin.test" in str(each) for each in every) for every in names] == [False, True]


def test_a_missing_store_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"listener PEER: ssl.keystore.location is not set"):
        open_tls_listeners(BrokerSettings(PEER_TLS), [], lambda: NOW, Inline())


def test_certificates_of_kafkas_clients_open_no_pages(tmp_path: Path) -> None:
    found = opened(tmp_path, admin_security_protocol="SSL", ssl_client_auth="required")
    assert [each.settings.client_auth for each in found] == [ssl.CERT_NONE] * 2
    own = {"listener_name_admin_ssl_client_auth": "requested"}
    found = opened(tmp_path, admin_security_protocol="SSL", **own)
    assert [each.settings.client_auth for each in found] == [ssl.CERT_NONE, ssl.CERT_OPTIONAL]
    with pytest.raises(SettingsError, match=r"listener ADMIN: ssl\.client\.auth needs a trust"):
        opened(tmp_path, admin_security_protocol="SSL", ssl_truststore_location="", **own)


@pytest.mark.parametrize(
    ("suites", "is_good"),
    [
        ("TLS_AES_128_GCM_SHA256", False),
        ("TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384", True),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", True),
    ],
)
async def test_gateways_share_a_cipher_suite(tmp_path: Path, suites: str, is_good: bool) -> None:
    if not is_good:
        with pytest.raises(SettingsError, match="without TLS_AES_256_GCM_SHA384"):
            opened(tmp_path, ssl_cipher_suites=suites)
        return
    peer = peer_of(opened(tmp_path, ssl_cipher_suites=suites))
    async with serving(peer) as port:
        assert await said_to(peer, port) == b"stranger"


# -- settings --------------------------------------------------------------------------------------


def test_a_listener_of_clients_cannot_have_their_names() -> None:
    texts = {"listeners": "PEER://127.0.0.1:1", "listener.security.protocol.map": "PEER:SSL"}
    assert inner_tls_listeners(BrokerSettings(texts)) == ()
    with pytest.raises(SettingsError, match="listener PEER has the name of the gateway's own"):
        inner_tls_listeners(BrokerSettings(texts | PEER_TLS))


CLEAR: list[tuple[dict[str, str], str]] = [
    (
        {"peer.listener": "0.0.0.0:1", "peer.token": "x"},
        "peer.token would leave this machine",
    ),
    ({"peer.listener": "gw:1", "peer.token": "x"}, "set peer.security.protocol=SSL"),
    ({"admin.listener": ":1", "admin.token": "x"}, "set admin.security.protocol=SSL"),
    ({"peer.listener": "127.0.0.1:1", "peer.token": "x"}, ""),
    ({"peer.listener": "0.0.0.0:1"}, ""),
    ({"peer.token": "x"}, "peer.token would leave this machine"),
    ({"admin.token": "x"}, ""),
    ({"metadata.log": "forward:gw:1,127.0.0.1:2?token-file=t"}, "would send its token without"),
    ({"metadata.log": "forward:gw:1?token-file=t&ca-file=c"}, ""),
    ({"metadata.log": "forward:gw:1?token-file=t&tls=on"}, ""),
    ({"metadata.log": "forward:127.0.0.1:1,[::1]:2?token-file=t"}, ""),
    ({"metadata.log": "forward:gw:1"}, ""),
    ({"peer.listener": "gw:1", "peer.token": "x", **PEER_TLS}, ""),
    ({"peer.listener": "gw:1", "peer.token": "x", "allow.plaintext.listeners": "true"}, ""),
]


@pytest.mark.parametrize(("texts", "said"), CLEAR)
def test_a_token_does_not_leave_this_machine_in_clear(texts: dict[str, str], said: str) -> None:
    if not said:
        return refuse_token_in_clear(BrokerSettings(texts))
    with pytest.raises(SettingsError, match=said):
        refuse_token_in_clear(BrokerSettings(texts))
    return None


# -- the pages -------------------------------------------------------------------------------------


def refused(
    target: str, headers: Sequence[tuple[str, str]] = (), token: str = "secret", **more: Any
) -> bool:
    request = HttpRequest("GET", target, tuple(headers))
    known = bool(more.get("has_certificate"))
    answer = refusal_of(request, Secret(token), has_certificate=known)
    assert answer is None or answer.status == 401
    return answer is not None


def test_pages_need_the_token_or_a_certificate_but_for_those_of_health() -> None:
    assert refused("/metrics")
    assert refused("/v1/status?x=/livez")
    assert refused("/nothing")
    assert refused("/metrics", [("authorization", "Bearer wrong")])
    assert refused("/metrics", [("authorization", "secret")])
    assert refused("/metrics", [("authorization", "Basic secret")])
    assert not refused("/metrics", [("authorization", "bearer  secret")])
    accented = "secr\u00e9t".encode().decode("latin-1")
    assert not refused("/metrics", [("authorization", f"Bearer {accented}")], "secr\u00e9t")
    assert refused("/metrics", [("authorization", "Bearer secr\u00e9t")])
    assert not refused("/metrics", [("authorization", "Bearer secret")])
    assert not refused("/metrics", has_certificate=True)
    assert not any(refused(each) for each in ("/livez", "/readyz?verbose", "/healthz"))
    assert not refused("/metrics", token="")
