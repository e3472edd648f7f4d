"""An identity provider over HTTP on loopback: it signs tokens of clients, and changes keys."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from joserfc import jwt
from joserfc.jwk import ECKey

ISSUER: Final = "https://provider.example"
AUDIENCE: Final = "tidegate"


class Provider:
    """reads: how often its keys were read.  grants: how often it gave a token over HTTP.

    Args:
      seconds: how long a token is valid that it gives over HTTP.
      kept: how many older keys stay published.
      refused: a client that gets no token.
    """

    def __init__(self, seconds: float = 3600.0, kept: int = 1, refused: str = "") -> None:
        self.reads = 0
        self.grants = 0
        self._seconds = seconds
        self._kept = kept
        self._refused = refused
        self._keys: list[ECKey] = []
        self.rotate()

    def rotate(self) -> None:
        """Sign with a new key from now on.  Some older keys stay published, for their tokens."""
        key = ECKey.generate_key("P-256", {"kid": f"key-{time.monotonic_ns()}"})
        self._keys = [key, *self._keys[: self._kept]]

    def token(self, subject: str = "alice", seconds: float = 3600.0) -> str:
        """Return a token that is valid for `seconds`."""
        now = time.time()
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": subject,
            "iat": int(now),
            "exp": now + seconds,
        }
        key = self._keys[0]
        return jwt.encode({"alg": "ES256", "kid": key.kid}, claims, key)

    def key_set(self) -> bytes:
        """Return the public keys (JWKS) that the provider publishes."""
        self.reads += 1
        return json.dumps({"keys": [each.as_dict(private=False) for each in self._keys]}).encode()

    def grant(self, authorization: str) -> tuple[int, bytes]:
        """Return status and answer for a client that asks for a token, whatever its secret."""
        name = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")[0]
        if name == self._refused:
            return 401, b'{"error":"invalid_client","error_description":"no such client"}'
        self.grants += 1
        answer = {
            "access_token": self.token(name, self._seconds),
            "expires_in": self._seconds,
            "token_type": "Bearer",
        }
        return 200, json.dumps(answer).encode()

    @contextmanager
    def published(self) -> Generator[str]:
        """Serve keys, and tokens to those that POST; yield the URL of the keys."""
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, provider.key_set())

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self._answer(*provider.grant(self.headers["Authorization"]))

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                del format, arguments

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}/keys"
            finally:
                server.shutdown()
                thread.join()


def listener_settings(listener: str, url: str) -> dict[str, str]:
    """Return the settings of a gateway's listener of OAUTHBEARER."""
    prefix = f"listener.name.{listener.lower()}"
    oauth = f"{prefix}.oauthbearer.sasl.oauthbearer"
    return {
        f"{prefix}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{oauth}.jwks.endpoint.url": url,
        f"{oauth}.expected.issuer": ISSUER,
        f"{oauth}.expected.audience": AUDIENCE,
    }
