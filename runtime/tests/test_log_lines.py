"""Log lines: JSON for machines, secrets masked, no local variables in tracebacks."""

from __future__ import annotations

import io
import json
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

import msgspec
import pytest
import structlog

from tidegate_runtime import log_lines
from tidegate_runtime.line_rates import UNLIMITED, LineRates
from tidegate_runtime.log_levels import ROOT
from tidegate_runtime.log_lines import PROCESS_LEVELS, configure_logs
from tidegate_runtime.secret import Secret


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


SECRET = "".join(["hun", "ter", "2"])  # tracebacks show source lines


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def fail_with(secret: str) -> None:
    hidden = secret
    raise RuntimeError(f"a bug met {len(hidden)} characters")


@pytest.mark.parametrize("as_json", [True, False])
def test_secrets_and_local_variables_are_not_shown(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs("info", as_json=as_json)
    log = structlog.get_logger("test")
    log.info("connected", user="ann", sasl_password=SECRET, secretToken=SECRET, api_key=5)
    try:
        fail_with(SECRET)
    except RuntimeError:
        log.exception("failed")

    text = "\n".join(lines_of(capsys))
    assert SECRET not in text
    assert text.count("[hidden]") == 2  # api_key is Kafka's API number, and no secret
    assert "ann" in text
    assert "a bug met 7 characters" in text


class Level(Enum):
    HIGH = "high"


@dataclass(frozen=True)
class Holder:
    user: str
    password: str = field(repr=False)


class Row(msgspec.Struct):
    key: bytes

    def __repr__(self) -> str:
        return "Row()"


@pytest.mark.parametrize("as_json", [True, False])
def test_no_encoder_looks_into_objects(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("debug", as_json=as_json)
    log = structlog.get_logger("test")
    data = SECRET.encode()
    log.debug(
        "seen",
        holder=Holder("ann", SECRET),
        nested=[{"at": (Row(data), Secret(SECRET))}],
        headers={"Authorization": f"Bearer {SECRET}", "host": "h"},
        sasl_jaas_config=SECRET,
        salt=data,
        level_of=Level.HIGH,
        names={"b"},
    )
    [line] = lines_of(capsys)
    encoded = b64encode(data).decode().rstrip("=")
    assert not any(each in line for each in (SECRET, encoded, data.hex()))
    assert all(each in line for each in ("ann", "Row()", "[hidden]", "host", "high"))


def test_a_line_of_json_is_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", as_json=True)
    log = structlog.get_logger("test")
    log.debug("not shown")
    log.info("shown", peer=("::1", 5), body=b"\xff", odd=object)

    [line] = lines_of(capsys)
    event = json.loads(line)
    assert (event["event"], event["level"], event["peer"]) == ("shown", "info", ["::1", 5])
    assert event["timestamp"].endswith("Z")


def test_levels(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("error", as_json=True)
    log = structlog.get_logger("test")
    log.warning("not shown")
    log.error("shown")
    assert [json.loads(line)["event"] for line in lines_of(capsys)] == ["shown"]


def test_a_logger_has_its_own_level_or_the_roots(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("warning", as_json=True)
    log, other = structlog.get_logger("one"), structlog.get_logger("other")
    log.info("not shown")
    PROCESS_LEVELS.set("one", "TRACE")
    log.debug("one shown")
    other.info("not shown")
    PROCESS_LEVELS.set(ROOT, "ERROR")
    other.warning("not shown")
    log.debug("two shown")
    PROCESS_LEVELS.unset("one")
    log.warning("not shown")
    log.error("three shown")
    PROCESS_LEVELS.set("one", "FATAL")
    log.error("not shown")
    log.critical("four shown")
    PROCESS_LEVELS.unset("one")
    events = [json.loads(line)["event"] for line in lines_of(capsys)]
    assert events == ["one shown", "two shown", "three shown", "four shown"]


def test_many_lines_of_a_kind_are_left_out_and_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(log_lines, "PROCESS_RATES", LineRates())
    monkeypatch.setattr(log_lines, "monotonic", lambda: now)
    configure_logs("debug", as_json=True)
    log, own = structlog.get_logger("one", 10), structlog.get_logger("own", UNLIMITED)
    for _ in range(50):
        log.warning("poked")
        log.debug("looked at")
        own.warning("bounded elsewhere")
    now = 60.0
    log.warning("poked")
    lines = [json.loads(line) for line in lines_of(capsys)]
    counts = Counter(each["event"] for each in lines)
    assert counts == {"poked": 11, "looked at": 50, "bounded elsewhere": 50}
    assert [each["left_out"] for each in lines if "left_out" in each] == [40]
    assert lines[-1]["left_out"] == 40
    assert log_lines.PROCESS_RATES.left_out == 40


def test_a_line_is_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """With single writes, lines of processes that share stderr do not mix."""
    writes: list[str] = []

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            writes.append(text)
            return len(text)

    monkeypatch.setattr(sys, "stderr", Stream())
    configure_logs("info", as_json=True)
    structlog.get_logger("tidegate.test").info("stopped")
    assert len(writes) == 1
    assert writes[0].endswith("}\n")
