"""A fake of Google Cloud Storage, ours: the part of its XML API that a store of Tidegate uses.

It is not Google's, so tests on it show only how our client sends requests and reads answers, not
how Google's store behaves. Each object has a generation, a number that no other object ever had. A
PUT with `x-goog-if-generation-match: 0` creates, and answers 412 if there is an object. The fake
refuses unknown requests with 501, so that none goes unnoticed.

    PUT, GET, HEAD, DELETE /BUCKET/OBJECT
    GET /BUCKET?list-type=2&prefix=&delimiter=&start-after=&continuation-token=&max-keys=
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE_KEYS = 1000
TOKEN = "token-of-tests"
MATCH = "x-goog-if-generation-match"
_LISTING = {
    "list-type",
    "prefix",
    "delimiter",
    "start-after",
    "continuation-token",
    "max-keys",
}
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


class Stored(NamedTuple):
    body: bytes
    generation: int
    modified_at: float


class Bucket:
    """The objects of one bucket, and how often each method was answered with each status."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.objects: dict[str, Stored] = {}
        self.generations = int(time.time() * 1e6)
        self.answers: Counter[tuple[str, int]] = Counter()

    def put(self, name: str, body: bytes, match: int | None) -> Stored | None:
        """Store an object; None if the present generation is not `match`."""
        with self.lock:
            found = self.objects.get(name)
            if match is not None and match != (found.generation if found else 0):
                return None
            self.generations += 1
            self.objects[name] = Stored(body, self.generations, time.time())
            return self.objects[name]

    def delete(self, name: str) -> bool:
        with self.lock:
            return self.objects.pop(name, None) is not None

    def listed(self, prefix: str, after: str) -> list[tuple[str, Stored]]:
        with self.lock:
            found = [each for each in self.objects.items() if each[0].startswith(prefix)]
        return sorted(each for each in found if each[0] > after)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body leave together, and at once.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True
    bucket: Bucket
    name: str

    def handle(self) -> None:
        # A client that needs no more answers disconnects.
        with suppress(ConnectionError):
            super().handle()

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        given = self.headers.get(MATCH)
        key = self._key()
        if not key or urlsplit(self.path).query:
            return self._answer(501)
        stored = self.bucket.put(key, body, None if given is None else int(given))
        if stored is None:
            return self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        self._answer(200, headers=_headers_of(stored))

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        key = self._key()
        if not key:
            return self._list({name: values[0] for name, values in query.items()})
        if query:
            return self._answer(501)
        stored = self.bucket.objects.get(key)
        if stored is None:
            return self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        self._send_body(stored)

    do_HEAD = do_GET

    def do_DELETE(self) -> None:
        key = self._key()
        if not key or urlsplit(self.path).query:
            return self._answer(501)
        self._answer(204 if self.bucket.delete(key) else 404)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(501)

    def _send_body(self, stored: Stored) -> None:
        headers, size = _headers_of(stored), len(stored.body)
        wanted = self.headers.get("Range")
        if wanted is None:
            return self._answer(200, stored.body, headers)
        found = _RANGE.fullmatch(wanted)
        if found is None:
            return self._answer(501)
        start, last = int(found[1]), min(int(found[2] or size - 1), size - 1)
        if start >= size:
            return self._answer(416, headers={"Content-Range": f"bytes */{size}"})
        headers["Content-Range"] = f"bytes {start}-{last}/{size}"
        self._answer(206, stored.body[start : last + 1], headers)

    def _list(self, query: dict[str, str]) -> None:
        if query.get("list-type") != "2" or query.keys() - _LISTING or query.get("delimiter"):
            return self._answer(501)
        prefix = query.get("prefix", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        found = self.bucket.listed(prefix, after)
        page = found[: int(query.get("max-keys", PAGE_KEYS))]
        more = ""
        if len(page) < len(found):
            token = escape(page[-1][0])
            more = f"<NextContinuationToken>{token}</NextContinuationToken>"
        contents = "".join(_listed(name, stored) for name, stored in page)
        is_cut = str(bool(more)).lower()
        self._answer(
            200,
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>'
            f"<Name>{self.name}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(page)}</KeyCount><IsTruncated>{is_cut}</IsTruncated>{more}{contents}"
            "</ListBucketResult>".encode(),
        )

    def parse_request(self) -> bool:
        """Answer 401 to a client without the token."""
        if not super().parse_request():
            return False
        if self.headers.get("Authorization") == f"Bearer {TOKEN}":
            return True
        self.close_connection = True
        self._answer(401)
        return False

    def _key(self) -> str:
        bucket, _, key = unquote(urlsplit(self.path).path).lstrip("/").partition("/")
        return key if bucket == self.name else ""

    def _answer(
        self, status: int, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> None:
        self.bucket.answers[self.command, status] += 1
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _headers_of(stored: Stored) -> dict[str, str]:
    return {
        "ETag": f'"{hashlib.md5(stored.body).hexdigest()}"',
        "Last-Modified": formatdate(stored.modified_at, usegmt=True),
        "x-goog-generation": str(stored.generation),
        "x-goog-hash": "",
    }


def _listed(name: str, stored: Stored) -> str:
    modified = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(stored.modified_at))
    return (
        f"<Contents><Key>{escape(name)}</Key><Generation>{stored.generation}</Generation>"
        f"<LastModified>{modified}</LastModified><Size>{len(stored.body)}</Size>"
        f"<ETag>{_headers_of(stored)['ETag']}</ETag></Contents>"
    )


class _Server(ThreadingHTTPServer):
    # All connections of a store may open at once.
    request_queue_size = 128
    daemon_threads = True


@contextmanager
def running_gcs_fake(name: str = "box") -> Iterator[tuple[str, Bucket]]:
    """Serve one empty bucket; yield its `gs:` URL and the bucket.

    Clients need TOKEN as GOOGLE_BEARER_TOKEN.
    """
    bucket = Bucket()
    handler = type("Handler", (_Handler,), {"bucket": bucket, "name": name})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"gs://{name}?endpoint=http://127.0.0.1:{server.server_port}", bucket
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
