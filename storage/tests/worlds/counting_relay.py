"""A relay to an S3 server that counts the requests on the wire."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from urllib.parse import parse_qs, urlsplit

ANSWER_SECONDS = 60.0


def kind_of(method: str, path: str) -> str:
    """Return put, get, list or delete, as a cloud prices requests."""
    query = parse_qs(urlsplit(path).query, keep_blank_values=True)
    if method == "GET" and "list-type" in query:
        return "list"
    if method == "POST" and "delete" in query:
        return "delete"
    return method.lower()


@contextmanager
def counting_relay(endpoint: str) -> Iterator[tuple[str, Counter[str]]]:
    """Yield the relay's endpoint, and the requests by kind so far."""
    place = urlsplit(endpoint)
    counts: Counter[str] = Counter()
    lock = Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def relay(self) -> None:
            with lock:
                counts[kind_of(self.command, self.path)] += 1
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            server = HTTPConnection(f"{place.hostname}:{place.port}", timeout=ANSWER_SECONDS)
            # The client's Host header stays, because the signature covers it.
            server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() != "connection":
                    server.putheader(name, value)
            server.endheaders(body)
            answer = server.getresponse()
            data = answer.read()
            server.close()
            self.send_response_only(answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                    self.send_header(name, value)
            if self.command != "HEAD":
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = relay

        def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", counts
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
