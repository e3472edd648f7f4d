"""java-tools: runs the script and compares each call with the record of Apache Kafka's answers.

`record()` writes expected/java-tools.json from Apache Kafka; `check()` needs only that file.
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.java_tools import verifiable
from harness.java_tools.groups import CLUSTER, GROUPS, PERFORMANCE
from harness.java_tools.normalise import normal
from harness.java_tools.permitted import CALLS, absent_api, added_api
from harness.java_tools.script import TOOLS, TRANSACTOR, Call, Join, Leave, Step
from harness.java_tools.security import SECURITY
from harness.java_tools.topics import CONFIGS, CONSOLE, DELETE_RECORDS, OFFSETS, TOPICS
from harness.java_tools.transactions import TRANSACTIONS
from harness.java_tools.transactor import Transactor
from harness.places import HERE, WORK
from harness.process import Process
from harness.report import Outcome
from harness.security import AUTHORIZER
from harness.toolbox import Printed, Toolbox, spawn_tool

EXPECTED = HERE / "expected" / "java-tools.json"
SETTINGS = {
    "node.id": "1",
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    **AUTHORIZER,
}
SCRIPT: list[Step] = [
    *TOPICS, *CONFIGS, *CONSOLE, *OFFSETS, *DELETE_RECORDS, *GROUPS, *TRANSACTIONS, *CLUSTER,
    *SECURITY, *PERFORMANCE
]  # fmt: skip
UNTIL_SECONDS = 30.0
# Kafka's admin client asks for a missing partition's leader until its time-out, 60 s by default.
HASTY = "default.api.timeout.ms=4000\nrequest.timeout.ms=3000\n"
Normal = dict[str, Any]


@dataclass(slots=True)
class Stage:
    """The parts that a script runs on: a JVM for tools, producers, group members, a folder."""

    box: Toolbox
    transactor: Transactor
    bootstrap: str
    folder: Path
    members: list[Process] = field(default_factory=list[Process])

    def call(self, call: Call) -> Normal:
        """Run the call until its output matches `until`, or UNTIL_SECONDS pass; return output."""
        deadline = time.monotonic() + UNTIL_SECONDS
        while True:
            printed = self._once(call)
            late = time.monotonic() > deadline
            if not call.until or late or re.search(call.until, printed.stdout):
                return normal(call, printed)
            time.sleep(0.3)

    def _once(self, call: Call) -> Printed:
        if call.tool == TRANSACTOR:
            return Printed(0, self.transactor.step(call.words), "")
        words = shlex.split(call.words)
        files = {"{FILE}": self.folder / "file", "{HASTY}": self.folder / "hasty.properties"}
        files["{FILE}"].write_text(call.file)
        files["{HASTY}"].write_text(HASTY)
        words = [str(files.get(word, word)) for word in words]
        server = ["--bootstrap-server", self.bootstrap]
        # Some tools take a verb.  The server's address stands before it, but after it for
        # `cluster`.
        words = [*words, *server] if call.tool == "cluster" else [*server, *words]
        return self.box.call(TOOLS[call.tool], words, stdin=call.stdin)

    def join(self, join: Join) -> None:
        """Start a console consumer in a group."""
        words = ["--bootstrap-server", self.bootstrap, "--topic", join.topic]
        words += ["--group", join.group, "--command-property", f"client.id={join.client_id}"]
        log = self.folder / f"{join.client_id}.log"
        self.members.append(spawn_tool(TOOLS["console-consumer"], words, log))

    def leave(self) -> None:
        """Stop the console consumers, so that they leave their groups."""
        while self.members:
            self.members.pop().stop()


def record(bootstrap: str) -> list[Outcome]:
    """Write the broker's answers to the record; the broker must be Apache Kafka."""
    with on_stage(bootstrap) as stage:
        answers = {call.name: answer for call, answer in play(stage, SCRIPT)}
        outcomes = list(verifiable.check(stage.box, bootstrap))
    EXPECTED.parent.mkdir(exist_ok=True)
    EXPECTED.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")
    return [Outcome(f"recorded {len(answers)} calls", "passed"), *outcomes]


def check(bootstrap: str) -> list[Outcome]:
    """Compare the broker's answers with the record."""
    expected: dict[str, Normal] = json.loads(EXPECTED.read_text())
    outcomes: list[Outcome] = []
    with on_stage(bootstrap) as stage:
        for call, answer in play(stage, SCRIPT):
            if call.view == "apis":
                outcomes += _judge_apis(call.name, expected.get(call.name), answer)
            else:
                outcomes.append(judge(call.name, expected.get(call.name), answer, CALLS))
        outcomes += verifiable.check(stage.box, bootstrap)
    return outcomes


@contextmanager
def on_stage(bootstrap: str) -> Generator[Stage]:
    """Prepare the stage; at the end stop all that was started on it."""
    WORK.mkdir(exist_ok=True)
    with Toolbox() as box, tempfile.TemporaryDirectory(dir=WORK) as folder:
        stage = Stage(box, Transactor(bootstrap), bootstrap, Path(folder))
        try:
            yield stage
        finally:
            stage.leave()
            stage.transactor.close()


def play(stage: Stage, script: Iterable[Step]) -> Iterator[tuple[Call, Normal]]:
    """Do the steps; yield each call with what it printed."""
    for step in script:
        match step:
            case Call():
                yield step, stage.call(step)
            case Join():
                stage.join(step)
            case Leave():
                stage.leave()


def judge(
    name: str, expected: Normal | None, answer: Normal, permitted: Mapping[str, str]
) -> Outcome:
    """Compare what a call printed.  permitted: reasons why it may differ, by name."""
    if expected == answer:
        return Outcome(name, "passed")
    if name in permitted:
        return Outcome(name, "excluded", permitted[name])
    return Outcome(name, "failed", difference(expected, answer))


def _judge_apis(name: str, expected: Normal | None, answer: Normal) -> list[Outcome]:
    wanted = _by_api(expected or {"stdout": []})
    offered = _by_api(answer)
    return [
        _judge_api(f"{name.strip()} {api}", wanted.get(api), offered.get(api))
        for api in wanted | offered
    ]


def _by_api(answer: Normal) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in answer["stdout"])


def _judge_api(name: str, wanted: str | None, offered: str | None) -> Outcome:
    api = name.split()[-1]
    if wanted == offered:
        return Outcome(name, "passed")
    reason = absent_api(api) if offered is None else added_api(api) if wanted is None else ""
    if reason:
        return Outcome(name, "excluded", reason)
    return Outcome(name, "failed", f"Kafka: {wanted or 'absent'}, here: {offered or 'absent'}")


def difference(expected: Normal | None, answer: Normal) -> str:
    """Lines of Kafka's answer (-) and of this broker's (+) that are not in the other."""
    if expected is None:
        return "not in the record: record it anew"
    lines = difflib.unified_diff(_flat(expected), _flat(answer), "kafka", "here", n=0, lineterm="")
    return "\n" + "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def _flat(answer: Normal) -> list[str]:
    errors = [f"stderr: {line}" for line in answer["stderr"]]
    return [f"exit status {answer['status']}", *answer["stdout"], *errors]
