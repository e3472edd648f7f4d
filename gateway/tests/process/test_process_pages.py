"""The supervisor of several gateways passes on the pages of one gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.worlds.app_world import started_gateway, starting_pages
from tests.worlds.security.tls_world import opened
from tidegate_gateway.cli.processes.pages import Asked, ProcessPages
from tidegate_gateway.tls.metrics import tls_metrics
from tidegate_runtime.http.client import HttpClient, HttpUnavailable
from tidegate_runtime.http.values import HttpAnswer
from tidegate_runtime.secret import Secret

PAGE = b"# HELP kafka_brokers Live gateways\n# TYPE kafka_brokers gauge\nkafka_brokers 2.0\n"


class Process:
    """Stands for the HTTP client of one gateway.  answer: None if the gateway does not answer."""

    def __init__(self, answer: HttpAnswer | None) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def call(self, method: str, target: str, **_: Any) -> HttpAnswer:
        self.asked.append(f"{method} {target}")
        if self.answer is None:
            raise HttpUnavailable("it does not answer")
        return self.answer


def supervisor(
    *processes: Process | None, own: Callable[[], Iterable[Metric]] = tuple
) -> ProcessPages:
    asked = [
        Asked(number, cast("HttpClient | None", each), 0)
        for number, each in enumerate(processes, 1)
    ]
    return ProcessPages(lambda: asked, Secret(), "1", own)


async def test_the_page_of_the_cluster_is_that_of_one_gateway() -> None:
    cut_off, gives = Process(HttpAnswer(503, b"cut off\n")), Process(HttpAnswer(200, PAGE))
    spare = Process(HttpAnswer(200, b"another"))
    pages = supervisor(None, Process(None), cut_off, gives, spare)
    answer = await pages.answer("GET", "/metrics/cluster")
    assert (answer.status, answer.body) == (200, PAGE)
    assert answer.content_type.startswith("text/plain; version=0.0.4")
    assert [each.asked for each in (cut_off, gives, spare)] == [
        ["GET /metrics/cluster"],
        ["GET /metrics/cluster"],
        [],
    ]


async def test_each_page_of_a_gateway_is_one_of_the_supervisor() -> None:
    pages = supervisor(Process(HttpAnswer(200, b"{}")))
    async with started_gateway() as gateway:
        found = {
            *starting_pages()._pages,
            *(path for each in gateway.features for path in each.pages),
        }
    for target in found - {"/v1/zones"}:
        assert (await pages.answer("GET", target)).status == 200, target
    answer = await pages.answer("GET", "/v1/cost")
    assert answer.body == b'{"processes":{"1":{}}}\n'


async def test_the_metrics_tell_of_the_certificate_of_the_supervisors_own_listener() -> None:
    texts = {"admin.security.protocol": "SSL", "listeners": "PLAINTEXT://127.0.0.1:0"}
    pages = supervisor(Process(HttpAnswer(200, PAGE)), own=partial(tls_metrics, opened(texts)))
    answer = await pages.answer("GET", "/metrics")
    assert isinstance(answer.body, str)
    samples = [
        each for family in text_string_to_metric_families(answer.body) for each in family.samples
    ]
    labels = {each.name: each.labels for each in samples}
    own = {"process": "supervisor", "listener": "ADMIN"}
    assert labels["tidegate_tls_expiry_seconds"] == own
    assert labels["tidegate_tls_failed_reloads_total"] == own
    assert labels["kafka_brokers"] == labels["tidegate_process_up"] == {"process": "1"}


async def test_no_gateway_gives_the_page_of_the_cluster() -> None:
    answer = await supervisor(None, Process(None)).answer("GET", "/metrics/cluster")
    assert answer.status == 503
