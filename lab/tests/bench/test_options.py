"""The bench's command line, and its error messages for impossible options."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from typer.testing import CliRunner

from tidegate_bench import checkout
from tidegate_bench.brokers.delayed_store import delayed
from tidegate_bench.brokers.stores import NamedStore
from tidegate_bench.brokers.worlds import external
from tidegate_bench.clients.spec import OneByOne, Produce, Read, from_json, to_json
from tidegate_bench.command import app
from tidegate_bench.errors import BenchError
from tidegate_bench.options import FULL, QUICK, Options, check, parse_settings
from tidegate_bench.run import SCENARIOS
from tidegate_bench.run import run as run_bench
from tidegate_storage.stores.load import open_store


def test_settings() -> None:
    assert parse_settings(["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}
    for text in ("a", "=1"):
        with pytest.raises(BenchError, match="write NAME=VALUE"):
            parse_settings([text])


def test_cases_are_chosen_by_text() -> None:
    assert Options().wants("16K 16p")
    assert Options(only=("1MB", "16p")).wants("16K 16p")
    assert not Options(only=("1MB",)).wants("16K 16p")


def test_clients_are_chosen() -> None:
    chosen = {name: Options(client=name) for name in ("librdkafka", "java", "both")}
    assert {name: each.uses_librdkafka for name, each in chosen.items()} == {
        "librdkafka": True,
        "java": False,
        "both": True,
    }
    assert [name for name, each in chosen.items() if each.uses_java] == ["java", "both"]


def test_lengths() -> None:
    assert Options(quick=True).lengths is QUICK
    assert Options().lengths is FULL
    assert FULL.runs >= 3
    assert FULL.run_bytes >= 500_000_000
    assert FULL.jvm_bytes >= 5_000_000_000


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (Options(pid=1), "--pid and --metrics go with --bootstrap"),
        (Options(bootstrap="h:1", settings={"a": "b"}), "--set needs a gateway"),
        (Options(bootstrap="h:1", processes=1), "--processes needs gateways"),
        (Options(store="memory", processes=1), "gateways cannot share the memory of one"),
        (Options(log="memory", processes=1), "gateways cannot share the memory of one"),
        (Options(processes=1 << 20), "this machine has [0-9]+ cores"),
    ],
)
def test_contradicting_options_are_refused(options: Options, sentence: str) -> None:
    with pytest.raises(BenchError, match=sentence):
        check(options)


def test_a_missing_process_is_refused() -> None:
    with pytest.raises(BenchError, match="no such process"):
        external("127.0.0.1:9092", 2**22 + 1, None)


def test_specifications_travel_as_json() -> None:
    for spec in (
        Produce("b:1", "t", 3, 1000, 5000, 2.5, idempotent=True),
        Read("b:1", "t", 3, 10, 5000, 2.5, from_start=False),
        OneByOne("b:1", "t", 100, 2.5, read_back=True),
    ):
        assert from_json(to_json(spec)) == spec


def test_help_names_every_scenario() -> None:
    shown = CliRunner().invoke(app, ["--help"]).output
    assert [name for name in SCENARIOS if name not in shown] == []


def test_the_command_line_refuses_with_one_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused = CliRunner().invoke(app, ["ingest", "--set", "nonsense"])
    assert refused.exit_code == 2
    assert "write NAME=VALUE" in refused.output
    assert run_bench(["nothing"], Options(), as_json=False) == 1
    assert "there is no scenario nothing" in capsys.readouterr().err


def test_without_a_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(checkout, "ROOT", tmp_path)
    with pytest.raises(BenchError, match="need a checkout with compat-tests/, Maven and Java"):
        checkout.harness("broker")
    with pytest.raises(BenchError, match="--store seaweedfs needs a checkout"):
        checkout.seaweed()


async def test_each_gateway_has_a_place_of_its_own_in_a_store(tmp_path: Path) -> None:
    store = NamedStore(f"file:{tmp_path}/shared")
    url = store.open_place(Path("/x/bench-1"))
    assert url == f"file:{tmp_path}/shared/bench-1"
    assert NamedStore("s3://b/p/?region=r").open_place(Path("/x/1")) == "s3://b/p/1?region=r"
    opened = open_store(url)
    await opened.put("a/b", b"x")
    await opened.aclose()
    await trio.to_thread.run_sync(store.drop_place, url)
    again = open_store(url)
    assert await again.list("") == []
    await again.aclose()


def test_only_an_s3_store_can_be_slowed() -> None:
    with delayed(60, "PUT") as through, pytest.raises(BenchError, match="at an S3 store"):
        through("memory:")
