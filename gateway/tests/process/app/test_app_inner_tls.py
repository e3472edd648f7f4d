"""Gateways whose calls of each other use TLS, and whose pages need a token."""

from __future__ import annotations

import signal
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import trustme

from tests.worlds.app_world import PATIENCE_SECONDS, Process, first_line, serving, starting
from tests.worlds.greetings import consume, produce

SHARED = (
    *("serve", "--set", "object.store=file:objects", "--set", "forwarding=on"),
    *("--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", "lease.ms=6000"),
    *("--set", "peer.listener=127.0.0.1:0", "--set", "peer.token=shared-secret"),
    *("--set", "peer.security.protocol=SSL", "--set", "ssl.keystore.location=own.pem"),
    *("--set", "ssl.truststore.location=ca.pem"),
    *("--set", "listener.name.peer.ssl.client.auth=required"),
    *("--set", "admin.listener=127.0.0.1:0", "--set", "admin.security.protocol=SSL"),
    *("--set", "admin.token=pages-secret"),
)


@contextmanager
def cluster(cwd: Path) -> Iterator[tuple[Process, Process]]:
    """Run a gateway that reaches the log, and one that reads and writes it through the first."""
    authority = trustme.CA()
    own = authority.issue_cert("localhost", "127.0.0.1")
    (cwd / "own.pem").write_bytes(own.private_key_and_cert_chain_pem.bytes())
    authority.cert_pem.write_to_path(str(cwd / "ca.pem"))
    (cwd / "token").write_text("shared-secret\n")
    with ExitStack() as stack:
        log = ("--set", "node.id=1", "--set", "metadata.log=sqlite:metadata.db")
        first = stack.enter_context(serving(*SHARED, *log, "--data", "data-1", cwd=cwd))
        url = f"forward:{first.said['peer']}?token-file=token&ca-file=ca.pem&key-file=own.pem"
        through = ("--set", "node.id=2", "--set", f"metadata.log={url}")
        yield first, stack.enter_context(serving(*SHARED, *through, "--data", "data-2", cwd=cwd))


def page(process: Process, path: str, ca: Path, token: str = "") -> tuple[int, str]:
    url = f"{process.said['admin_url']}{path}"
    assert url.startswith("https://")
    request = urllib.request.Request(url)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    context = ssl.create_default_context(cafile=str(ca))
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_gateways_forward_over_tls_and_pages_need_the_token(tmp_path: Path) -> None:
    with cluster(tmp_path) as (first, second):
        produce(second.servers, "a", "b")
        produce(first.servers, "c")
        assert consume(second.servers, 3) == ["a", "b", "c"]
        ca = tmp_path / "ca.pem"
        assert page(second, "/readyz", ca) == (200, "ready\n")
        status, said = page(second, "/metrics", ca)
        assert status == 401
        assert "admin.token" in said
        status, said = page(second, "/metrics", ca, "pages-secret")
        assert status == 200
        [proposals] = [
            line
            for line in said.splitlines()
            if line.startswith("tidegate_forwarding_proposals_total ")
        ]
        assert float(proposals.split()[1]) > 0
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(f"{first.said['admin_url']}/readyz", timeout=PATIENCE_SECONDS)


def test_sighup_does_not_end_a_gateway_that_waits_for_its_log(tmp_path: Path) -> None:
    """systemd treats an end by SIGHUP as a clean one, and would not restart the gateway."""
    own = trustme.CA().issue_cert("localhost", "127.0.0.1")
    (tmp_path / "own.pem").write_bytes(own.private_key_and_cert_chain_pem.bytes())
    words = (
        *("listeners=PLAINTEXT://127.0.0.1:0", "metadata.log=http://127.0.0.1:1"),
        *("admin.listener=127.0.0.1:0", "admin.security.protocol=SSL"),
        "ssl.keystore.location=own.pem",
    )
    options = [word for each in words for word in ("--set", each)]
    with starting("serve", *options, cwd=tmp_path) as popen:
        assert "the metadata log does not answer" in first_line(popen, popen.stderr)
        popen.send_signal(signal.SIGHUP)
        popen.terminate()
        popen.communicate(timeout=PATIENCE_SECONDS)
    assert popen.returncode == 0
