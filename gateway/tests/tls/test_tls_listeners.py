"""New certificates while a listener serves: which are used, which are refused, and log lines."""

from __future__ import annotations

import datetime
import os
import re
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme
from structlog.testing import capture_logs

from tests.worlds.app_world import unstarted_gateway
from tests.worlds.security.tls_world import (
    TlsClientTransport,
    authority,
    client_context,
    opened,
    pem,
)
from tests.worlds.wire_client import WireClient, wire_world
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.tls.metrics import tls_metrics
from tidegate_gateway.tls.tls_listeners import TlsListeners, open_tls_listeners
from tidegate_gateway.tools.doctor_machine import check_machine
from tidegate_gateway.tools.findings import Checked
from tidegate_protocol.messages.api_versions import ApiVersionsRequest
from tidegate_runtime.settings_texts import SettingsError

NOW = 1_800_000_000.0
DAY = 86_400.0


def moment(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def issued(*names: str, name: str = "gateway", days: float = 100, began: float = NOW - DAY) -> str:
    """Return key and chain of a listener, in PEM."""
    found = authority().ca.issue_cert(
        *(names or ("gateway.test",)),
        common_name=name,
        organization_name="acme",
        organization_unit_name="tests",
        not_before=moment(began),
        not_after=moment(NOW + days * DAY),
    )
    return pem(found)


class Scene:
    """A listener whose certificate is in a file."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.now = NOW
        self.file = folder / "server.pem"
        self._writes = 0
        self.write(issued())
        texts = {name.replace("_", "."): text for name, text in settings.items()}
        texts["ssl.keystore.location"] = str(self.file)
        self.tls: TlsListeners = opened(texts, lambda: self.now)
        [self.listener] = self.tls

    def write(self, content: str) -> None:
        self.file.write_text(content)
        self._writes += 1
        os.utime(self.file, (self._writes, self._writes))

    async def look(self) -> list[Any]:
        """Look for new certificates; return the lines of the log."""
        with capture_logs() as logs:
            await self.tls.look()
        return logs

    async def is_taken(self) -> bool:
        before = self.listener.current
        await self.look()
        return self.listener.current is not before


async def test_a_new_certificate_is_taken(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    assert await scene.look() == []
    scene.write(issued("gateway.test", "other.test", days=200))
    [line] = await scene.look()
    assert line["event"] == "new certificates are in use"
    assert scene.tls.seconds_left(scene.listener) == 200 * DAY
    assert await scene.look() == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (issued(name="other"), "has the subject 'cn=other,ou=tests,o=acme', not 'cn=gateway"),
        (issued("other.test"), "lacks a subject alternative name"),
        (issued(days=-0.5), "a certificate expired on 2027-01-14"),
        (issued(began=NOW + DAY), "a certificate is valid only from 2027-01-16"),
        (issued()[:500], "its key is damaged|no private key|no certificate"),
        ("", "no PKCS12, JKS or PEM"),
        (
            issued().partition("-----BEGIN CERTIFICATE")[0]
            + "-----BEGIN CERTIFICATE"
            + issued().partition("-----BEGIN CERTIFICATE")[2],
            "mismatch",
        ),
        (issued() + trustme.CA().cert_pem.bytes().decode(), "of its chain did not sign"),
    ],
)
async def test_a_bad_file_keeps_the_old_certificate_and_says_so(
    tmp_path: Path, content: str, reason: str
) -> None:
    scene = Scene(tmp_path)
    before = scene.listener.current
    scene.write(content)
    [line] = await scene.look()
    assert line["log_level"] == "error"
    assert re.search(reason, line["reason"])
    assert scene.listener.current is before
    assert scene.listener.failed_reloads == 1
    assert await scene.look() == []  # an error that repeats soon is not logged again
    assert scene.listener.failed_reloads == 2
    scene.write(issued())
    assert await scene.is_taken()


async def test_a_missing_file_keeps_the_old_certificate(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.file.unlink()
    [line] = await scene.look()
    assert line["reason"].endswith("it cannot be read: No such file or directory")


async def test_other_names_are_taken_where_settings_allow_them(tmp_path: Path) -> None:
    scene = Scene(tmp_path, ssl_allow_dn_changes="true")
    scene.write(issued(name="other"))
    assert await scene.is_taken()
    scene.write(issued("other.test", name="other"))
    assert not await scene.is_taken()
    scene = Scene(tmp_path, ssl_allow_san_changes="true")
    scene.write(issued("other.test"))
    assert await scene.is_taken()
    scene.write(issued("other.test", name="other"))
    assert not await scene.is_taken()


async def test_an_expiry_is_announced_thirty_days_before_once_a_day(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.now = NOW + 70 * DAY - 1
    assert await scene.look() == []
    scene.now = NOW + 70 * DAY + 1
    [line] = await scene.look()
    assert (line["event"], line["expires"]) == ("a certificate expires soon", "2027-04-25")
    scene.now += DAY / 2
    assert await scene.look() == []
    scene.now += DAY / 2
    assert len(await scene.look()) == 1
    scene.now += 30 * DAY
    [line] = await scene.look()
    assert line["event"] == "a certificate is expired"
    scene.write(issued(days=300))
    assert [each["event"] for each in await scene.look()] == ["new certificates are in use"]


async def test_metrics_show_the_expiry_by_listener(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.listener.failed_handshakes = 3
    found = {
        (sample.name, sample.labels["listener"]): sample.value
        for family in tls_metrics(scene.tls)
        for sample in family.samples
    }
    assert found == {
        ("tidegate_tls_expiry_seconds", "SSL"): 100 * DAY,
        ("tidegate_tls_failed_handshakes_total", "SSL"): 3,
        ("tidegate_tls_failed_reloads_total", "SSL"): 0,
    }
    assert [each.samples for each in tls_metrics(TlsListeners())] == [[], [], []]


async def test_open_connections_outlive_a_new_certificate(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    async with wire_world(tls=scene.tls) as world:

        async def connected() -> tuple[WireClient, bytes | None]:
            context = client_context(authority().root)
            context.verify_flags |= 0x200000  # no check of times: the scene has its own clock
            transport = TlsClientTransport(world.open(listener="SSL"), context)
            await transport.handshake()
            return WireClient(transport), transport.tls.getpeercert(binary_form=True)

        old, old_certificate = await connected()
        scene.write(issued(days=200))
        assert await scene.is_taken()
        new, new_certificate = await connected()
        assert old_certificate != new_certificate
        for client in (old, new):
            assert (await client.call("ApiVersions", 0, ApiVersionsRequest())).error_code == 0


def test_a_start_with_an_expired_certificate_serves_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "old.pem"
    path.write_text(issued())
    with capture_logs() as logs:
        opened({"ssl.keystore.location": str(path)}, lambda: NOW + 101 * DAY)
    assert "a certificate expired on" in str(logs)


def test_doctor_reads_the_stores(tmp_path: Path) -> None:
    def found(location: Path) -> list[Checked]:
        notes: list[Checked] = []
        texts = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(location)}
        check_machine(BrokerSettings(texts), None, notes.append)
        return [each for each in notes if each.area == "TLS"]

    path = tmp_path / "server.pem"
    [refused] = found(path)
    assert not refused.ok
    assert "cannot be read" in refused.advice
    path.write_text(authority().server)
    [fine] = found(path)
    assert fine.ok
    assert "SSL has certificates until" in fine.what


def test_a_gateway_without_tls_looks_for_no_certificates() -> None:
    assert len(unstarted_gateway()._environment.tls) == 0
    names = ["PLAINTEXT"]
    tls = open_tls_listeners(BrokerSettings(), names, lambda: NOW, None)  # type: ignore[arg-type]
    assert not len(tls)


@pytest.mark.parametrize("prefix", ["", "listener.name.plaintext."])
def test_a_principal_builder_of_the_operators_is_refused_on_every_listener(prefix: str) -> None:
    settings = BrokerSettings({f"{prefix}principal.builder.class": "com.acme.Builder"})
    with pytest.raises(SettingsError, match=r"principal\.builder\.class names a Java class"):
        open_tls_listeners(settings, ["PLAINTEXT"], lambda: NOW, None)  # type: ignore[arg-type]


async def test_the_gateway_looks_every_ten_seconds(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    scene = Scene(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.tls.run)
        await trio.sleep(1)
        before = scene.listener.current
        scene.write(issued(days=200))
        await trio.sleep(8)
        assert scene.listener.current is before
        await trio.sleep(2)
        assert scene.listener.current is not before
        nursery.cancel_scope.cancel()
