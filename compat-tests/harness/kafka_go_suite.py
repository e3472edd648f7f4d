"""kafka-go's own tests of its root package, out of the Go module.

They name one address, localhost:9092, in many places, and want no rack; a build overlay puts the
broker's there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence, Set
from pathlib import Path

from harness import install
from harness.baseline import passing, score
from harness.excluded import excluded, worth_a_start
from harness.go_suite import RESULT, chosen
from harness.places import log_of
from harness.probe import offered
from harness.process import run_to_end, tail
from harness.report import Outcome

SETTINGS = {
    "node.id": "1",
    "num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "message.max.bytes": "200000000",
}
BUILD_SECONDS = 600
SECONDS = 840
VERSION = "4.0.0"  # chooses what its tests expect of a broker
# They call a method of a consumer group made without its constructor, which ends the whole process.
PORT = "9092"  # in their source, and the library's default
RACK = "default"  # a gateway is always in some zone
PANICS = "TestReaderConsumerGroup/(verify_offset_committed.*|consumer_group_commits_on_close)"


def check(bootstrap: str, only: re.Pattern[str]) -> Sequence[Outcome]:
    """Compile the tests for this address, run and score them."""
    # The overlay must name files as Go does, without symbolic links.
    folder, log = install.kafka_go_tests().resolve(), log_of("kafka-go").resolve()
    program, overlay = log.with_suffix(".test"), _overlay(folder, bootstrap)
    build: list[str | Path] = ["go", "test", "-vet=off", "-c", "-overlay", overlay, "-o", program]
    if run_to_end([*build, "."], log, seconds=BUILD_SECONDS, cwd=folder) != 0:
        return [Outcome("go test -c", "failed", tail(log))]
    skip = "|".join([PANICS, *_left_out(offered(bootstrap))])
    names = passing("kafka-go", only)
    command: list[str | Path] = [
        program,
        "-test.v",
        f"-test.timeout={SECONDS}s",
        f"-test.skip={skip}",
        *chosen(names, only),
    ]
    env = {"KAFKA_SKIP_NETTEST": "1", "KAFKA_VERSION": VERSION}
    status = run_to_end(command, log, seconds=SECONDS + 30, cwd=folder, env=env)
    program.unlink()
    return _outcomes(names, log, status, bootstrap)


def _left_out(apis: Set[int]) -> list[str]:
    """Patterns for tests that are excluded; if they ran, the tests around them would fail."""
    exclusions = excluded("kafka-go")
    names = [name for name in passing("kafka-go") if not worth_a_start(name, exclusions, apis)]
    return ["/".join(f"^{re.escape(part)}$" for part in name.split("/")) for name in names]


def _overlay(folder: Path, bootstrap: str) -> Path:
    """The package as if its tests were written for this broker; for `go build -overlay`."""
    target = log_of("kafka-go").with_suffix(".overlay")
    target.mkdir(parents=True, exist_ok=True)
    replaced: dict[str, str] = {}
    for source in folder.glob("*.go"):
        text = source.read_text()
        changed = text if source.name == "address_test.go" else _at(bootstrap, text)
        port = bootstrap.rpartition(":")[2]
        (target / source.name).write_text(re.sub(rf"\b{PORT}\b", port, changed))
        replaced[str(source)] = str(target / source.name)
    overlay = target / "overlay.json"
    overlay.write_text(json.dumps({"Replace": replaced}))
    return overlay


def _at(bootstrap: str, text: str) -> str:
    host = bootstrap.rpartition(":")[0]
    text = re.sub(rf'"localhost(?=:{PORT}"|")', f'"{host}', text)
    text = text.replace(f"Port: {PORT}, ID: 1}}", f'Port: {PORT}, ID: 1, Rack: "{RACK}"}}')
    return text.replace('.Rack != ""', f'.Rack != "{RACK}"')


def _outcomes(names: Sequence[str], log: Path, status: int | None, bootstrap: str) -> list[Outcome]:
    output = log.read_text(errors="replace").replace(bootstrap.rpartition(":")[2], PORT)
    results = {name: word == "PASS" for word, name in RESULT.findall(output) if word != "SKIP"}
    outcomes = score(names, results, excluded("kafka-go"))
    if status is None or "panic:" in output:
        outcomes.append(Outcome("the test process", "failed", f"did not end well\n{tail(log)}"))
    return outcomes
