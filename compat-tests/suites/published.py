"""Runs published suites and clients against a broker, which is started for each of them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.broker import running
from harness.install import MissingTool
from harness.java_tools import suite as java
from harness.metadata_log import metadata_log
from harness.process import StartFailed
from harness.report import Outcome, Report
from runner.options import option
from runner.result import Result, WrongOption, say
from runner.shared import NoOptions

from suites import franz_go as franz
from suites import kafka_go as segmentio
from suites import kafka_python as python
from suites import kafka_python_logins as python_logins
from suites import librdkafka as rd
from suites import round_trips
from suites.baseline import EVERYTHING, passing

Check = Callable[[str], Sequence[Outcome]]


@dataclass(frozen=True, kw_only=True)
class AtBroker:
    """The broker that is judged."""

    against: str = option("tidegate", "tidegate, kafka or HOST:PORT")
    log: Literal["sqlite", "postgres"] = option("sqlite", "the gateway's metadata log")


@dataclass(frozen=True, kw_only=True)
class Scored(AtBroker):
    """A suite whose tests are scored against those that pass on Apache Kafka."""

    only: str = option("", "a regular expression: only tests whose names match")


@dataclass(frozen=True, kw_only=True)
class RoundTrip(AtBroker):
    """A client program of ours."""

    records: int = 100_000


def java_tools(options: AtBroker) -> Result:
    """Compare the output of Kafka's tools with their output at Apache Kafka."""
    return _result(judged("java-tools", java.SETTINGS, java.check, options))


def record_java_tools(options: NoOptions) -> Result:
    """Record the output of Kafka's tools at Apache Kafka."""
    return _result(judged("java-tools", java.SETTINGS, java.record, AtBroker(against="kafka")))


def _scored(
    name: str,
    settings: Mapping[str, str],
    check: Callable[[str, re.Pattern[str]], Sequence[Outcome]],
) -> Callable[[Scored], Result]:
    def main(options: Scored) -> Result:
        only = re.compile(options.only) if options.only else EVERYTHING
        if not passing(name, only):
            raise WrongOption("--only: no test that counts has such a name")
        return _result(judged(name, settings, lambda address: check(address, only), options))

    return main


def kafka_python_logins(options: Scored) -> Result:
    """Run kafka-python's tests of logins, which start brokers themselves."""

    def check(_: str, only: re.Pattern[str]) -> Sequence[Outcome]:
        return python_logins.check(options.against, only)

    return _scored("kafka-python-logins", python.SETTINGS, check)(options)


def _round_trip(name: str) -> Callable[[RoundTrip], Result]:
    def main(options: RoundTrip) -> Result:
        def check(address: str) -> Sequence[Outcome]:
            return round_trips.CLIENTS[name](address, options.records)

        return _result(judged(name, round_trips.SETTINGS, check, options))

    return main


franz_go = _scored("franz-go", franz.SETTINGS, franz.check)
kafka_go = _scored("kafka-go", segmentio.SETTINGS, segmentio.check)
kafka_python = _scored("kafka-python", python.SETTINGS, python.check)
librdkafka = _scored("librdkafka", rd.SETTINGS, rd.check_default)
librdkafka_noautocreate = _scored(
    "librdkafka-noautocreate", rd.WITHOUT_AUTO_CREATE, rd.check_without_auto_create
)
librdkafka_sasl = _scored("librdkafka-sasl", rd.WITH_LOGINS, rd.check_with_logins)
kafka_go_client, kafkajs, kcat, kgo_client, kafka_python_2_0_2, kafka_python_1_4_7 = map(
    _round_trip,
    (
        "kafka-go-client",
        "kafkajs",
        "kcat",
        "kgo-client",
        "kafka-python-2.0.2",
        "kafka-python-1.4.7",
    ),
)


def everything(options: RoundTrip) -> Result:
    """Run all suites and clients, one after another."""
    at_broker = AtBroker(against=options.against, log=options.log)
    scored = Scored(against=options.against, log=options.log)
    results = [java_tools(at_broker)]
    for suite in (
        franz_go,
        kafka_python,
        kafka_python_logins,
        kafka_go,
        librdkafka,
        librdkafka_noautocreate,
        librdkafka_sasl,
    ):
        say(results[-1].text)
        results.append(suite(scored))
    for name in round_trips.CLIENTS:
        say(results[-1].text)
        results.append(_round_trip(name)(options))
    return Result(
        all(each.is_good for each in results),
        "\n".join(each.text for each in results),
        [each.figures for each in results],
    )


def judged(name: str, settings: Mapping[str, str], check: Check, options: AtBroker) -> Report:
    """Start a broker with these settings, and return the outcomes of its check."""
    if options.log != "sqlite" and options.against != "tidegate":
        raise WrongOption("--log goes with a gateway of this tree only")
    started = time.monotonic()
    outcomes = _outcomes(settings, check, options)
    against = options.against if options.log == "sqlite" else f"{options.against} on {options.log}"
    return Report(name, against, outcomes, time.monotonic() - started)


def _outcomes(settings: Mapping[str, str], check: Check, options: AtBroker) -> Sequence[Outcome]:
    try:
        with (
            metadata_log(options.log) as log_url,
            running(options.against, settings, log_url=log_url) as broker,
        ):
            return check(broker.bootstrap)
    except MissingTool as missing:
        return [Outcome("all", "skipped", str(missing))]
    except StartFailed as error:
        return [Outcome("broker start", "failed", str(error))]


def _result(report: Report) -> Result:
    return Result(not report.failed, report.text(), report.figures())
