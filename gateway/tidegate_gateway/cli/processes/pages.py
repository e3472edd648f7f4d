"""The admin pages of several gateways on one machine, made from the pages of each gateway.

/livez, /healthz  this supervisor runs
/readyz           clients may connect to at least one of the gateways; the text has all gateways
/metrics          metrics of all gateways, with the label `process`, and of the supervisor
/metrics/cluster  the page of the first gateway that has it
/version          JSON
/v1/zones         JSON: the sums over the gateways that answered
other /v1 pages   JSON: {"processes": {"1": ..., "2": null}}; null: no answer
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import trio
from prometheus_client.metrics_core import Metric

from tidegate_runtime.http.client import HttpClient, HttpUnavailable
from tidegate_runtime.http.pages import Answer, answer_from, json_answer
from tidegate_runtime.http.values import HttpAnswer
from tidegate_runtime.prometheus import CONTENT_TYPE, pieces
from tidegate_runtime.secret import Secret

from ..zone_sums import summed
from .metric_pages import SupervisedProcess, merged

ANSWER_SECONDS: Final = 2.0
MAX_ANSWER_BYTES: Final = 32 << 20
OK: Final = 200


class Asked(NamedTuple):
    """A gateway to ask.  client: None while the gateway does not serve."""

    process: int
    client: HttpClient | None
    restarts: int


class ProcessPages:
    """See the module's head.

    Args:
      processes: returns all processes.  token: for their admin pages; empty if they need none.
      own: returns metrics of this process.
    """

    def __init__(
        self,
        processes: Callable[[], list[Asked]],
        token: Secret,
        version: str,
        own: Callable[[], Iterable[Metric]] = tuple,
    ) -> None:
        self._own = own
        self._processes = processes
        self._token = token
        self._version = version
        self._pages: dict[str, Callable[[], Awaitable[Answer]]] = {
            "/healthz": self._alive,
            "/livez": self._alive,
            "/readyz": self._ready,
            "/metrics": self._metrics,
            "/metrics/cluster": self._cluster_metrics,
            "/version": self._show_version,
            "/v1/status": partial(self._of_each, "/v1/status"),
            "/v1/cost": partial(self._of_each, "/v1/cost"),
            "/v1/debug": partial(self._of_each, "/v1/debug"),
            "/v1/links": partial(self._of_each, "/v1/links"),
            "/v1/zones": self._zones,
        }

    async def answer(self, method: str, target: str) -> Answer:
        """See Pages."""
        return await answer_from(self._pages, method, target)

    async def _alive(self) -> Answer:
        return Answer(OK, "ok\n")

    async def _ready(self) -> Answer:
        answers = await self._asked("/readyz")
        is_ready = any(each is not None and each.status == OK for each in answers.values())
        texts = {
            number: "no answer\n" if each is None else bytes(each.body).decode(errors="replace")
            for number, each in answers.items()
        }
        text = "".join(f"process {number}: {each}" for number, each in texts.items())
        return Answer(OK if is_ready else 503, text)

    async def _metrics(self) -> Answer:
        answers = await self._asked("/metrics")
        processes = [
            SupervisedProcess(each.process, _text(answers[each.process]), each.restarts)
            for each in self._processes()
        ]
        own = "".join(pieces(self._own()))
        text = await trio.to_thread.run_sync(merged, processes, own)
        return Answer(OK, text, CONTENT_TYPE)

    async def _cluster_metrics(self) -> Answer:
        for each in self._processes():
            if each.client is not None:
                answer = await self._answer_of(each.client, "/metrics/cluster")
                if answer is not None and answer.status == OK:
                    return Answer(OK, bytes(answer.body), CONTENT_TYPE)
        return Answer(503, "no gateway gives it: they start, or are cut off from their log\n")

    async def _show_version(self) -> Answer:
        return json_answer({"version": self._version})

    async def _of_each(self, target: str) -> Answer:
        answers = await self._asked(target)
        return json_answer(
            {"processes": {str(each): _json(found) for each, found in answers.items()}}
        )

    async def _zones(self) -> Answer:
        found = [_json(each) for each in (await self._asked("/v1/zones")).values()]
        reports = [each for each in found if each is not None]
        return json_answer(summed(reports)) if reports else Answer(503, "starting\n")

    async def _asked(self, target: str) -> Mapping[int, HttpAnswer | None]:
        """Ask all gateways at once; None stands for no answer within ANSWER_SECONDS."""
        processes = self._processes()
        answers: dict[int, HttpAnswer | None] = {each.process: None for each in processes}

        async def ask(asked: Asked) -> None:
            if asked.client is not None:
                answers[asked.process] = await self._answer_of(asked.client, target)

        async with trio.open_nursery() as nursery:
            for each in processes:
                nursery.start_soon(ask, each)
        return answers

    async def _answer_of(self, client: HttpClient, target: str) -> HttpAnswer | None:
        token = self._token.reveal_bytes().decode("latin-1")
        headers = (("Authorization", f"Bearer {token}"),) if token else ()
        try:
            return await client.call(
                "GET",
                target,
                headers=headers,
                timeout_seconds=ANSWER_SECONDS,
                max_answer_bytes=MAX_ANSWER_BYTES,
            )
        except HttpUnavailable:
            return None


def _text(answer: HttpAnswer | None) -> str | None:
    return bytes(answer.body).decode() if answer is not None and answer.status == OK else None


def _json(answer: HttpAnswer | None) -> Any:
    return json.loads(answer.body) if answer is not None and answer.status == OK else None
