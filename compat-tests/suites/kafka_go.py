"""kafka-go's own tests of its root package and of its logins, out of the Go module.

The tests name one address, localhost:9092, in many places, and expect no rack.  A build overlay
replaces both by the broker's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence, Set
from pathlib import Path

from harness import install
from harness.places import log_of
from harness.probe import offered
from harness.process import run_to_end, tail
from harness.report import Outcome
from harness.security import AUTHORIZER, SASL, add_scram_users, create_topic, sasl_address

from suites.baseline import passing, score
from suites.excluded import excluded, worth_a_start
from suites.franz_go import RESULT, chosen

PACKAGES = (".", "./sasl")
SETTINGS = {
    "node.id": "1",
    "num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "message.max.bytes": "200000000",
    **AUTHORIZER,
    **SASL,
}
SECONDS = 840
VERSION = "4.0.0"  # the version of Kafka whose behaviour the tests expect
PORT = "9092"  # the tests' source has it, and it is the library's default
SASL_PORT = "9093"
SASL_TOPIC = "test-writer-0"  # the tests of logins expect that this topic exists
RACK = "default"  # a gateway is always in some zone
# These tests make a consumer group without its constructor, and call a method of it.  The call
# panics, which ends the whole process.
PANICS = "TestReaderConsumerGroup/(verify_offset_committed.*|consumer_group_commits_on_close)"


def check(bootstrap: str, only: re.Pattern[str]) -> Sequence[Outcome]:
    """Compile the tests for this address, run and score them."""
    add_scram_users(bootstrap)
    create_topic(bootstrap, SASL_TOPIC)
    # The overlay must name files as Go does, without symbolic links.
    folder, log = install.kafka_go_tests().resolve(), log_of("kafka-go").resolve()
    overlay = _overlay(folder, bootstrap)
    names, skip = passing("kafka-go", only), "|".join([PANICS, *_left_out(offered(bootstrap))])
    flags = ["-test.v", f"-test.timeout={SECONDS}s", f"-test.skip={skip}", *chosen(names, only)]
    output, outcomes = "", list[Outcome]()
    for number, package in enumerate(PACKAGES):
        own = log.with_suffix(f".{number}.log")
        program = own.with_suffix(".test")
        build: list[str | Path] = ["go", "test", "-vet=off", "-c", "-overlay", overlay]
        if run_to_end([*build, "-o", program, package], own, seconds=SECONDS, cwd=folder) != 0:
            return [Outcome(f"go test -c {package}", "failed", tail(own))]
        env = {"KAFKA_SKIP_NETTEST": "1", "KAFKA_VERSION": VERSION}
        status = run_to_end([program, *flags], own, seconds=SECONDS + 30, cwd=folder, env=env)
        program.unlink()
        said = own.read_text(errors="replace")
        if status is None or "panic:" in said:
            outcomes.append(Outcome(f"the tests of {package}", "failed", tail(own)))
        output += said
    return [*_judged(names, output, bootstrap), *outcomes]


def _left_out(apis: Set[int]) -> list[str]:
    """Return patterns for excluded tests.  If these ran, their parent tests would fail, too."""
    exclusions = excluded("kafka-go")
    names = [name for name in passing("kafka-go") if not worth_a_start(name, exclusions, apis)]
    return ["/".join(f"^{re.escape(part)}$" for part in name.split("/")) for name in names]


def _overlay(folder: Path, bootstrap: str) -> Path:
    """Write an overlay for `go build`, in which the package's tests name this broker."""
    target = log_of("kafka-go").with_suffix(".overlay")
    target.mkdir(parents=True, exist_ok=True)
    replaced: dict[str, str] = {}
    for source in [*folder.glob("*.go"), *folder.glob("sasl/*_test.go")]:
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
    text = re.sub(rf'"localhost(?=:{PORT}"|:{SASL_PORT}"|")', f'"{host}', text)
    text = re.sub(rf"\b{SASL_PORT}\b", sasl_address(bootstrap).rpartition(":")[2], text)
    text = text.replace(f"Port: {PORT}, ID: 1}}", f'Port: {PORT}, ID: 1, Rack: "{RACK}"}}')
    return text.replace('.Rack != ""', f'.Rack != "{RACK}"')


def _judged(names: Sequence[str], output: str, bootstrap: str) -> Sequence[Outcome]:
    said = output.replace(bootstrap.rpartition(":")[2], PORT)
    results = {name: word == "PASS" for word, name in RESULT.findall(said) if word != "SKIP"}
    return score(names, results, excluded("kafka-go"))
