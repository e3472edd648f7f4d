"""The remote store against a scripted server, over real HTTP."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from obstore.store import from_url

from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.object_store import (
    NoSuchObject,
    ObjectExists,
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
)
from tidegate_storage.stores.remote_store import RemoteObjectStore

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


class Answers(ThreadingHTTPServer):
    """Gives its answers in turn and repeats the last one; None means silence until the end."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, str] | None] = []
        self.requests: list[tuple[str, str | None, str | None]] = []
        self.ended = threading.Event()

    def store(self, *answers: tuple[int, str] | None, deadline_seconds: float = 20) -> ObjectStore:
        self.answers = list(answers)
        url = f"s3://bucket/prefix?endpoint=http://127.0.0.1:{self.server_port}&region=r"
        return open_store(url, environ=KEYS, deadline_seconds=deadline_seconds)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Answers

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = self.headers.get("if-none-match"), self.headers.get("x-amz-content-sha256")
        self.server.requests.append((self.path, *headers))
        answers = self.server.answers
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer is None:
            self.server.ended.wait()
            return
        status, code = answer
        body = f"<Error><Code>{code}</Code></Error>".encode() if code else b""
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.send_header("etag", '"x"')
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Answers]:
    with Answers() as answers:
        thread = threading.Thread(target=answers.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield answers
        answers.ended.set()
        answers.shutdown()
        thread.join()


async def test_a_put_is_one_conditional_unsigned_request(server: Answers) -> None:
    await server.store((200, "")).put("a/b", b"body")
    assert server.requests == [("/bucket/prefix/a/b", "*", "UNSIGNED-PAYLOAD")]


async def test_412_says_that_the_key_is_taken(server: Answers) -> None:
    with pytest.raises(ObjectExists):
        await server.store((412, "PreconditionFailed")).put("a", b"body")
    assert len(server.requests) == 1


async def test_a_put_answered_409_is_repeated(server: Answers) -> None:
    conflict = (409, "ConditionalRequestConflict")
    await server.store(conflict, conflict, (200, "")).put("a", b"body")
    assert len(server.requests) == 3
    with pytest.raises(ObjectExists):
        await server.store(conflict, (412, "PreconditionFailed")).put("a", b"body")


async def test_a_put_always_answered_409_ends_at_the_deadline(server: Answers) -> None:
    store = server.store((409, "ConditionalRequestConflict"), deadline_seconds=0.3)
    with pytest.raises(StoreUnavailable):
        await store.put("a", b"body")


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_a_failed_put_is_never_repeated_in_secret(server: Answers, status: int) -> None:
    with pytest.raises(StoreUnavailable, match=str(status)):
        await server.store((status, "SlowDown"), (200, "")).put("a", b"body")
    assert len(server.requests) == 1


async def test_a_call_to_a_silent_server_ends_at_the_deadline(server: Answers) -> None:
    store = server.store(None, deadline_seconds=0.2)
    for call in (store.put("a", b"body"), store.get("a")):
        with pytest.raises(StoreUnavailable):
            await call


async def test_a_read_may_be_repeated(server: Answers) -> None:
    assert await server.store((503, "SlowDown"), (200, "")).get("a") == b""
    assert len(server.requests) == 2


async def test_a_missing_object_is_not_a_missing_bucket(server: Answers) -> None:
    with pytest.raises(NoSuchObject):
        await server.store((404, "NoSuchKey")).get("a")
    for store in (server.store((404, "NoSuchBucket")),):
        with pytest.raises(StoreMisconfigured, match="create the bucket"):
            await store.get("a")
        with pytest.raises(StoreMisconfigured, match="create the bucket"):
            await store.put("a", b"body")


@pytest.mark.parametrize(
    ("answer", "advice"),
    [
        ((403, "AccessDenied"), "give Tidegate credentials that may"),
        ((403, "AccessDenied"), "or correct the bucket's name"),
        ((403, "SignatureDoesNotMatch"), "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ((403, "InvalidAccessKeyId"), "the store does not know this key"),
        ((400, "ExpiredToken"), "give Tidegate fresh credentials"),
        ((301, ""), "region"),
        ((400, "AuthorizationHeaderMalformed"), "region"),
    ],
)
async def test_the_error_says_what_an_operator_must_fix(
    server: Answers, answer: tuple[int, str], advice: str
) -> None:
    with pytest.raises(StoreMisconfigured, match=advice):
        await server.store(answer).put("a", b"body")


async def test_the_error_says_that_no_credentials_were_found(
    server: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without credentials obstore asks for the machine's role, here from a server without one."""
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name)
    server.answers = [(403, "")]
    here = f"http://127.0.0.1:{server.server_port}"
    config: Any = {"endpoint": here, "metadata_endpoint": here, "region": "r"}
    client = from_url("s3://bucket", config=config, client_options={"allow_http": True})
    store = RemoteObjectStore(client, client)
    for call in (store.put("a", b"body"), store.get("a"), store.list("")):
        with pytest.raises(StoreUnavailable, match=r"^no credentials were found: set AWS_ACCESS_"):
            await call
    server.answers = [(200, ""), (404, "")]
    with pytest.raises(StoreUnavailable, match="or give this machine a role"):
        await store.get("a")
    assert {path for path, _, _ in server.requests} == {
        "/latest/api/token",
        "/latest/meta-data/iam/security-credentials/",
    }


async def test_a_server_that_is_gone_is_unavailable(server: Answers) -> None:
    store = open_store("s3://bucket?endpoint=http://127.0.0.1:1&region=r", environ=KEYS)
    with pytest.raises(StoreUnavailable, match="no server answers there; check the network"):
        await store.put("a", b"body")
