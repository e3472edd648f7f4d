"""The README's first screen is true: its commands run, and print what it says.

test_pages.py checks its links and tables.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer

from tests.worlds.app_world import PATIENCE_SECONDS, deadline

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```console\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@contextmanager
def running_dev(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Run `tidegate dev` on free ports; yields (what it printed, bootstrap servers, admin URL)."""
    command = [sys.executable, "-m", "tidegate_gateway", "dev", "--port", "0", "--admin-port", "0"]
    environ = os.environ | {"_TIDEGATE": "./tidegate"}  # as the script `./tidegate` sets it
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, text=True, env=environ
    ) as popen:
        try:
            with deadline(popen):
                banner = _banner(popen)
            yield banner
            popen.send_signal(signal.SIGINT)
            assert popen.wait(PATIENCE_SECONDS) == 0
        finally:
            popen.kill()


def _banner(popen: subprocess.Popen[str]) -> tuple[str, str, str]:
    assert popen.stdout is not None
    lines: list[str] = []
    for line in popen.stdout:
        lines.append(line)
        if line.startswith("Ctrl+C"):
            break
    text = "".join(lines)
    servers = re.search(r"bootstrap servers +(\S+)", text)
    admin = re.search(r"admin +(\S+)", text)
    assert servers is not None, text
    assert admin is not None, text
    return text, servers[1], admin[1]


def test_the_first_command_prints_what_is_shown(tmp_path: Path) -> None:
    command, _, shown = BLOCKS[0].partition("\n")
    assert command == "$ ./tidegate dev"
    with running_dev(tmp_path) as (text, servers, admin):
        as_usual = (
            text.replace(f" --bootstrap {servers}", "")
            .replace(servers, "127.0.0.1:9092")
            .replace(admin, "http://127.0.0.1:9644")
        )
        assert as_usual == shown


def test_two_commands_do_all_the_set_up() -> None:
    start = README.partition("## Quick start")[2].partition("```")[0]
    named = re.findall(r"`(\./[a-z]+)[^`]*`", start)
    assert named == ["./tidegate", "./check"]
    for name in named:
        script = ROOT / name
        assert os.access(script, os.X_OK)
        assert "make_venv" in script.read_text()


def test_the_second_command_prints_what_is_shown(tmp_path: Path) -> None:
    with running_dev(tmp_path) as (_, servers, _):
        for command, shown in re.findall(r"^\$ (.*\n)((?:[^$].*\n)*)", BLOCKS[1], re.MULTILINE):
            program = f"{sys.executable} -m tidegate_gateway"
            typed = f"{command.strip()} --bootstrap {servers}".replace("./tidegate", program)
            done = subprocess.run(
                ["sh", "-c", typed],
                capture_output=True,
                text=True,
                timeout=PATIENCE_SECONDS,
                check=True,
            )
            assert done.stdout == shown


def test_any_kafka_client_does_the_same(tmp_path: Path) -> None:
    with running_dev(tmp_path) as (_, servers, _):
        producer = Producer({"bootstrap.servers": servers})
        producer.produce("greetings", "hello")
        assert producer.flush(PATIENCE_SECONDS) == 0
        settings = {"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        consumer.subscribe(["greetings"])
        message = consumer.poll(PATIENCE_SECONDS)
        consumer.close()

    assert message is not None
    assert (message.error(), message.value()) == (None, b"hello")
