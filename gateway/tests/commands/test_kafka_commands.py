"""The commands that are Kafka clients, as a user of a shell runs them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.app_world import PATIENCE_SECONDS, Process, deadline, serving, tidegate
from tests.worlds.forked_process import run_tidegate, start_tidegate
from tidegate_coordination.client.properties.client import Address
from tidegate_gateway.cli.kafka.cluster import client_properties
from tidegate_gateway.cli.kafka.options import KafkaPlace
from tidegate_runtime.settings_texts import BadSource

PORTS = ("--port", "0", "--admin-port", "0")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("dev")
    with serving("dev", "--memory", *PORTS, cwd=folder) as process:
        yield process


def piped(
    gateway: Process, text: bytes, *words: str, cwd: Path
) -> subprocess.CompletedProcess[bytes]:
    words = (*words, "--bootstrap", gateway.servers)
    return run_tidegate(words, seconds=PATIENCE_SECONDS, given=text, cwd=cwd)


def started(
    gateway: Process, *words: str, cwd: Path, **streams: Any
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    words = (*words, "--bootstrap", gateway.servers)
    return start_tidegate(words, cwd=cwd, **streams)


def test_what_is_written_is_read(gateway: Process, tmp_path: Path) -> None:
    words = ("topic", "produce", "greetings", "--key-separator", "\\t", "--header", "from=me")
    done = piped(gateway, b"a\tone\nb\t\x1b[2J\xff\n", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"2 records were acknowledged\n", b"")
    done = piped(gateway, b"", "topic", "consume", "greetings", "--values", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"one\n\x1b[2J\xff\n", b"")
    done = piped(gateway, b"", "topic", "consume", "greetings", cwd=tmp_path)
    assert b"key=b  \\x1b[2J\\xff  [from=me]\n" in done.stdout
    done = piped(
        gateway, b"", "topic", "consume", "greetings", "--json", "--max", "1", cwd=tmp_path
    )
    assert json.loads(done.stdout)["value"] == "one"


def test_exit_codes(gateway: Process, tmp_path: Path) -> None:
    def run(*words: str) -> tuple[int, str]:
        done = tidegate(*words, "--bootstrap", gateway.servers, cwd=tmp_path)
        return done.returncode, done.stdout + done.stderr

    assert run("topic", "create", "codes", "--partitions", "2")[0] == 0
    assert run("topic", "create", "codes") == (
        1,
        "tidegate: topic codes: TOPIC_ALREADY_EXISTS (36). Topic 'codes' already exists.\n",
    )
    assert run("group", "lag", "none\x1b[2J") == (
        1,
        "tidegate: there is no group none\\x1b[2J; see `tidegate group list`\n",
    )
    code, said = run("topic", "produce", "codes", "no-such-file")
    assert code == 2
    assert "No such file" in said
    assert run("topic", "consume", "codes", "--from", "soon")[0] == 2
    assert run("topic", "create", "codes", "--partitions", "none")[0] == 2
    for words in (
        ("topic", "describe", os.fsdecode(b"\xff")),
        ("topic", "create", "many", "--partitions", "3000000000"),
    ):
        code, said = run(*words)
        assert code == 2
        assert said.startswith("tidegate: an option or argument cannot be sent: cannot encode")
    code, said = run("topic", "delete", "codes")
    assert code == 1
    assert "There is no terminal to answer at: give --yes" in said
    assert run("topic", "delete", "codes", "--yes") == (0, "topic codes is deleted\n")


def test_no_gateway(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    done = tidegate("topic", "list", "--bootstrap", address, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    waiting, said = done.stderr.splitlines()
    assert waiting == f"tidegate: waiting for {address}, for 5 s at most"
    assert said.startswith(f"tidegate: {address} cannot be reached")


def test_a_reader_that_has_enough_ends_it_quietly(gateway: Process, tmp_path: Path) -> None:
    text = b"a line that is not short\n" * 50_000
    assert piped(gateway, text, "topic", "produce", "long", cwd=tmp_path).returncode == 0
    with started(
        gateway,
        *("topic", "consume", "long"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as popen:
        assert popen.stdout is not None
        assert popen.stderr is not None
        assert popen.stdout.readline().startswith(b"0:0  ")
        popen.stdout.close()
        assert (popen.wait(PATIENCE_SECONDS), popen.stderr.read()) == (0, b"")


@pytest.mark.parametrize("more", [(), ("--group", "blocked")])
def test_ctrl_c_ends_it_while_its_output_is_blocked(
    gateway: Process, tmp_path: Path, more: tuple[str, ...]
) -> None:
    text = b"a line that is not short\n" * 50_000
    assert piped(gateway, text, "topic", "produce", "blocked", cwd=tmp_path).returncode == 0
    with started(
        gateway,
        *("topic", "consume", "blocked", *more),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as popen:
        assert popen.stdout is not None
        assert popen.stderr is not None
        with deadline(popen):
            assert popen.stdout.readline().endswith(b"a line that is not short\n")
        # The other records do not fit into the pipe, and the test does not read them.
        popen.send_signal(signal.SIGINT)
        assert (popen.wait(PATIENCE_SECONDS), popen.stderr.read()) == (130, b"")


@pytest.mark.parametrize("words", [("consume", "quiet", "--follow"), ("produce", "quiet")])
def test_ctrl_c_ends_it_quietly(gateway: Process, tmp_path: Path, words: tuple[str, ...]) -> None:
    piped(gateway, b"first\n", "topic", "produce", "quiet", cwd=tmp_path)
    with started(
        gateway,
        *("topic", *words),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as popen:
        assert popen.stdin is not None
        assert popen.stdout is not None
        assert popen.stderr is not None
        if words[0] == "consume":
            with deadline(popen):
                assert b"first" in popen.stdout.readline()
        else:
            popen.stdin.write(b"one\n")
            popen.stdin.flush()
            wait_for(gateway, b"one\n", tmp_path)
        popen.send_signal(signal.SIGINT)
        assert popen.wait(PATIENCE_SECONDS) == 130
        said = b"" if words[0] == "consume" else b"1 record was acknowledged\n"
        assert (popen.stdout.read(), popen.stderr.read()) == (said, b"")


def wait_for(gateway: Process, value: bytes, cwd: Path) -> None:
    """Wait until a topic has this value."""
    words = ("topic", "consume", "quiet", "--values", "--follow")
    with started(gateway, *words, cwd=cwd, stdout=subprocess.PIPE) as popen:
        assert popen.stdout is not None
        with deadline(popen):
            while popen.stdout.readline() != value:
                assert popen.poll() is None
        popen.kill()


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def test_a_client_file_logs_in(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    own = f'listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN} user_alice="pw";'
    listener = "listeners=SASL_PLAINTEXT://127.0.0.1:0"
    settings = ("--set", listener, "--set", "sasl.enabled.mechanisms=PLAIN", "--set", own)
    with serving("dev", "--memory", *PORTS, *settings, cwd=tmp_path) as gateway:

        def listed(password: str) -> tuple[int, str]:
            file.write_text(
                "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
                f"bootstrap.servers={gateway.servers}\n"
                f'sasl.jaas.config={PLAIN} username="alice" password="{password}";\n'
            )
            done = tidegate("topic", "list", "--properties", str(file), cwd=tmp_path)
            return done.returncode, done.stdout + done.stderr

        assert listed("pw") == (0, "There is no topic.\n")
        code, said = listed("wrong")
        assert code == 2
        assert f"tidegate: {gateway.servers} does not authenticate user alice" in said


# -- how to connect --------------------------------------------------------------------------------


def test_the_options_stand_above_the_file_and_the_file_above_the_default(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "bootstrap.servers=file:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="u" password="p";\n'
    )
    assert client_properties(KafkaPlace()).bootstrap_servers == (Address("127.0.0.1", 9092),)
    found = client_properties(KafkaPlace(None, file))
    assert (found.bootstrap_servers, found.client_id) == ((Address("file", 1),), "tidegate")
    assert found.sasl is not None
    found = client_properties(KafkaPlace("a:2,b:3", file))
    assert found.bootstrap_servers == (Address("a", 2), Address("b", 3))
    file.write_text("client.id=mine\n")
    found = client_properties(KafkaPlace(None, file))
    assert (found.bootstrap_servers, found.client_id) == ((Address("127.0.0.1", 9092),), "mine")


@pytest.mark.parametrize("bootstrap", ["nonsense", "a:", ",", "a:99999"])
def test_bad_addresses(bootstrap: str) -> None:
    with pytest.raises(BadSource, match=r"bootstrap\.servers"):
        client_properties(KafkaPlace(bootstrap))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadSource, match="No such file"):
        client_properties(KafkaPlace(None, tmp_path / "none"))


# -- the shell -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "offered"), [("tidegate gro", ["group"]), ("tidegate topic c", ["create", "consume"])]
)
def test_completion(typed: str, offered: list[str], tmp_path: Path) -> None:
    environ = {
        "_TIDEGATE_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    script = (
        "import sys; sys.argv = ['tidegate']; from tidegate_gateway.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert sorted(done.stdout.split()) == sorted(offered)


@pytest.mark.parametrize("words", [(), ("topic",), ("group",), ("topic", "consume")])
def test_help_fits_a_terminal(words: tuple[str, ...], tmp_path: Path) -> None:
    done = tidegate(*words, "--help", cwd=tmp_path, COLUMNS="80")
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
