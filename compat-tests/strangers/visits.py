"""Visitors, which must get answers beside the strangers, and how long each of them waits.

health         /livez and /readyz, without a token
pages          /metrics with admin.token
peers          the log at peer.listener, with peer.token
served log     the log at `tidegate log serve`, with its token
new producer   a producer that connects, logs in and writes a record
producer       a producer that stays, and writes a record at a time
"""

from __future__ import annotations

import ssl
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import trio
from confluent_kafka import Producer

from tidegate_runtime.http.urls import call_url

PAUSE_SECONDS: Final = 0.25
PATIENCE_SECONDS: Final = 30.0
MAX_ANSWER_BYTES: Final = 32 << 20


class Visits:
    """waits: by visit, seconds until each answer.  failed: by visit, the error of each that failed.

    Args:
      pages, peers, served: base URLs.  token: of all three.  login: settings of librdkafka.
    """

    def __init__(
        self,
        pages: str,
        peers: str,
        served: str,
        token: str,
        ca: Path | None,
        login: Mapping[str, str],
    ) -> None:
        self.waits: dict[str, list[float]] = defaultdict(list)
        self.failed: dict[str, list[str]] = defaultdict(list)
        self._tls = ssl.create_default_context(cafile=str(ca)) if ca is not None else None
        self._token = token
        self._login = dict(login)
        self._asked = {
            "health": [f"{pages}/livez", f"{pages}/readyz"],
            "pages": [f"{pages}/metrics"],
            "peers": [f"{peers}/v1/log"],
            "served log": [f"{served}/v1/log"],
        }

    async def run(self, seconds: float) -> None:
        """Make all visits again and again for so long, each kind in its own task."""
        producer = self._producer()
        async with trio.open_nursery() as nursery:
            until = trio.current_time() + seconds
            for name, urls in self._asked.items():
                for url in urls:
                    nursery.start_soon(self._repeat, name, partial(self._ask, name, url), until)
            for name, made in (("producer", lambda: producer), ("new producer", self._producer)):
                nursery.start_soon(self._repeat, name, partial(_write, made), until)

    async def _repeat(self, name: str, visit: Callable[[], Awaitable[str]], until: float) -> None:
        while trio.current_time() < until:
            begun = trio.current_time()
            try:
                with trio.fail_after(PATIENCE_SECONDS):
                    refused = await visit()
            except Exception as error:
                refused = f"{type(error).__name__}: {error}"
            self.waits[name].append(trio.current_time() - begun)
            if refused:
                self.failed[name].append(refused)
            await trio.sleep(PAUSE_SECONDS)

    async def _ask(self, name: str, url: str) -> str:
        headers = () if name == "health" else (("Authorization", f"Bearer {self._token}"),)
        answer = await call_url(
            url, "GET", tls=self._tls, headers=headers, max_answer_bytes=MAX_ANSWER_BYTES
        )
        return "" if answer.status == 200 else f"{answer.status} {answer.body[:80]!r}"

    def _producer(self) -> Producer:
        return Producer(self._login)


async def _write(made: Callable[[], Producer]) -> str:
    return await trio.to_thread.run_sync(_write_one, made())


def _write_one(producer: Producer) -> str:
    begun, answers = time.monotonic(), list[str]()
    producer.produce(
        "strangers", b"x" * 100, callback=lambda error, _: answers.append(str(error or ""))
    )
    while not answers and time.monotonic() - begun < PATIENCE_SECONDS:
        producer.poll(0.1)
    return answers[0] if answers else "no acknowledgement"
