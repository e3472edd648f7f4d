"""Error texts for operators if a store refuses or cannot be reached: over real HTTP and TLS."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme
from obstore.store import from_url

from tidegate_storage.objects.ownership import read_owner
from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.object_store import (
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
)
from tidegate_storage.stores.remote_store import RemoteObjectStore

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
HTML = "<!DOCTYPE html><html><body>please log in</body></html>"
PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


class Server(ThreadingHTTPServer):
    """Gives one answer to all requests."""

    daemon_threads = True
    status = 200
    body = b""

    def answer(self, status: int, text: str) -> None:
        """text: an error code, or a whole body."""
        self.status = status
        is_code = text.isalnum()
        self.body = (f"<Error><Code>{text}</Code></Error>" if is_code else text).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(self.server.body)))
        self.send_header("etag", '"x"')
        self.send_header("last-modified", "Sat, 28 Nov 2026 20:00:00 GMT")
        self.end_headers()
        self.wfile.write(self.server.body)

    do_PUT = do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


class _TlsServer(Server):
    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors: clients that do not trust the certificate disconnect."""


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(name="server")
def _server() -> Iterator[Server]:
    with serving(Server(("127.0.0.1", 0), _Handler)) as server:
        yield server


@pytest.fixture(autouse=True)
def _without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (*PROXIES, "SSL_CERT_FILE"):
        monkeypatch.delenv(each, raising=False)


def store_at(port: int, scheme: str = "http", host: str = "127.0.0.1") -> ObjectStore:
    url = f"s3://bucket/prefix?endpoint={scheme}://{host}:{port}&region=r"
    return open_store(url, environ=KEYS, deadline_seconds=20)


RIGHTS = "give Tidegate credentials that may read, write, list and delete here"
CLOCK = "this machine's clock differs from the store's"
ROOM = "the store has no room"
CONDITIONS = r"the store does not know conditional writes \(If-None-Match"


CALLS: dict[str, Callable[[ObjectStore], Awaitable[object]]] = {
    "put": lambda store: store.put("a", b"body"),
    "get": lambda store: store.get("a"),
    "list": lambda store: store.list("a/"),
    "delete": lambda store: store.delete_many(["a"]),
    "owner": read_owner,
}


@pytest.mark.parametrize(
    ("call", "status", "text", "kind", "sentence"),
    [
        ("put", 403, "RequestTimeTooSkewed", StoreMisconfigured, CLOCK),
        ("list", 403, "RequestTimeTooSkewed", StoreMisconfigured, CLOCK),
        ("put", 403, "QuotaExceeded", StoreUnavailable, ROOM),
        ("put", 507, "XMinioStorageFull", StoreUnavailable, ROOM),
        ("put", 507, "", StoreUnavailable, ROOM),
        ("put", 501, "NotImplemented", StoreMisconfigured, CONDITIONS),
        ("list", 403, "AccessDenied", StoreMisconfigured, RIGHTS),
        ("delete", 403, "AccessDenied", StoreMisconfigured, RIGHTS),
        ("get", 403, "AccessDenied", StoreMisconfigured, RIGHTS),
        ("list", 401, "Unauthorized", StoreMisconfigured, RIGHTS),
        ("list", 200, "<html><br></html>", StoreMisconfigured, "a web page answers there"),
        ("owner", 200, HTML, StoreMisconfigured, "a web page answers there"),
        ("owner", 200, "\n <html>", StoreMisconfigured, "a web page answers there"),
        ("owner", 200, "not ours", StoreMisconfigured, "was not written by Tidegate"),
    ],
)
async def test_an_answer_gets_the_sentence_of_its_cause(
    call: str, status: int, text: str, kind: type[Exception], sentence: str, server: Server
) -> None:
    server.answer(status, text)
    with pytest.raises(kind, match=sentence):
        await CALLS[call](store_at(server.server_port))


@contextmanager
def serving_tls(
    authority: trustme.CA, *names: str, not_after: datetime | None = None
) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names, not_after=not_after).configure_cert(context)
    server = _TlsServer(("127.0.0.1", 0), _Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with serving(server) as found:
        yield found.server_port


async def test_a_private_authority_is_named_and_trusted_by_ssl_cert_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    with serving_tls(authority, "localhost") as port:
        with pytest.raises(StoreMisconfigured, match=r"in SSL_CERT_FILE \(AWS_CA_BUNDLE is not"):
            await store_at(port, "https", "localhost").put("a", b"body")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        await store_at(port, "https", "localhost").put("a", b"body")
        with pytest.raises(StoreMisconfigured, match="names another host"):
            await store_at(port, "https", "127.0.0.1").put("a", b"body")


async def test_an_expired_certificate_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    ended = datetime(2020, 1, 1, tzinfo=UTC)
    with (
        serving_tls(authority, "localhost", not_after=ended) as port,
        pytest.raises(StoreMisconfigured, match="is expired, or this machine's clock"),
    ):
        await store_at(port, "https", "localhost").put("a", b"body")


async def test_a_server_without_tls_at_an_https_endpoint_is_named(server: Server) -> None:
    with pytest.raises(StoreMisconfigured, match="speaks no TLS: write http://"):
        await store_at(server.server_port, "https").put("a", b"body")


async def test_a_host_without_an_address_is_named() -> None:
    with pytest.raises(StoreUnavailable, match="its host's name has no address"):
        await store_at(1, host="nowhere.invalid").put("a", b"body")


@pytest.mark.parametrize(
    ("name", "scheme"), [("HTTP_PROXY", "http"), ("https_proxy", "https"), ("ALL_PROXY", "http")]
)
async def test_a_dead_proxy_is_named_without_its_password(
    name: str, scheme: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "http://user:hunter2@127.0.0.1:1")
    with pytest.raises(StoreUnavailable, match=f"go through the proxy in {name}") as refused:
        await store_at(server.server_port, scheme).put("a", b"body")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("text", ["secret\n", " secret", "sec\nret", "secret\r"])
@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_white_space_around_a_credential_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(StoreMisconfigured, match=f"^{name} has white space") as refused:
        open_store("s3://bucket?region=r", environ={**KEYS, name: text})
    assert "sec" not in str(refused.value)


async def test_a_panic_of_the_client_is_an_error_of_the_store(server: Server) -> None:
    """obstore panics at a line break in an access key, which it may read from a file by itself."""
    endpoint = f"http://127.0.0.1:{server.server_port}"
    config: Any = {"endpoint": endpoint, "region": "r", "access_key_id": "k\ney"}
    config["secret_access_key"] = "secret"
    client = from_url("s3://bucket", config=config, client_options={"allow_http": True})
    store = RemoteObjectStore(client, client)
    for call in (store.put("a", b"body"), store.get("a"), store.list("a/")):
        with pytest.raises(StoreUnavailable, match="the client of the store failed"):
            await call
