"""Records what Apache Kafka answers about tokens: compat-tests/expected/delegation_tokens.json.

compat-tests/run delegation-tokens-record
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import trio
from harness.broker import running
from harness.places import KAFKA_VERSION
from harness.process import free_ports
from runner.result import Result
from runner.shared import NoOptions
from transactions.differential.wire import Connection, connect

from delegation_tokens.broker import LOGIN, settings
from delegation_tokens.player import Facts, Player
from delegation_tokens.script import play, play_without_key

GOLDEN: Final = Path(__file__).parents[1] / "expected" / "delegation_tokens.json"


def main(options: NoOptions) -> Result:
    """Play everything, and write the file."""
    facts = _played(play, has_key=True) | _played(play_without_key, has_key=False)
    lines = (f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in facts.items())
    head = f'  "kafka": "{KAFKA_VERSION}"'
    GOLDEN.write_text("{\n" + ",\n".join([head, *lines]) + "\n}\n")
    return Result(is_good=True)


def _played(script: Callable[[Player], Awaitable[None]], *, has_key: bool) -> dict[str, Facts]:
    [port] = free_ports(1)
    extra = settings(has_key=has_key) | {"listeners": f"{LOGIN}://127.0.0.1:{port}"}
    with running("kafka", extra) as broker:

        async def open_line(listener: str) -> Connection:
            place = f"127.0.0.1:{port}" if listener == LOGIN else broker.bootstrap
            return await connect(place)

        player = Player(open_line, lambda: time.time_ns() // 1_000_000)
        trio.run(script, player)
        return player.facts
