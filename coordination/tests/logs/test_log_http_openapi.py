"""The server of an `http:` log serves exactly the contract in http-log.openapi.json."""

import json
import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from tidegate_coordination.log.metadata_log import LogCapabilities
from tidegate_coordination.log.snapshots import frame_chunks
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.http import wire as wire
from tidegate_coordination.logs.http.service import LogService
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_runtime.http.values import HttpAnswer, HttpRequest
from tidegate_runtime.secret import Secret

WRITTEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "http-log.openapi.json").read_text()
)
SMALL = LogCapabilities(forward_to_leader=False, typical_append_seconds=0.0, max_entry_bytes=10)
FRAMED = b"".join(frame_chunks(2, [b"state"]))
CRC = wire.body_crc(FRAMED)
SAVE = f"snapshots/2?upload=u&bytes={len(FRAMED)}&crc32c={CRC}"
OTHER_FRAMED = b"no frames"
BAD_SAVE = f"snapshots/2?upload=v&bytes={len(OTHER_FRAMED)}&crc32c={wire.body_crc(OTHER_FRAMED)}"

TYPES: dict[str, type | tuple[type, ...]] = {
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "string": str,
}

Sent = tuple[str, str, bytes]
GOOD: list[Sent] = [
    ("GET", "log", b""),
    ("PUT", "entries/3", b"x"),
    ("GET", "entries?from=1&max_bytes=10", b""),
    ("GET", "wait?after=0&timeout_ms=1", b""),
    ("PUT", "uploads/u/0", FRAMED),
    ("PUT", SAVE, b""),
    ("GET", "snapshots/newest", b""),
    ("GET", f"snapshots/2?crc32c={CRC}&from=0", b""),
    ("POST", "trim?before=2", b""),
]
REFUSED: list[Sent] = [
    ("GET", "snapshots/newest", b""),
    ("PUT", "entries/2", b"again"),
    ("PUT", "entries/4", b"x" * 11),
    ("PUT", "entries/5", b"gap"),
    ("PUT", "entries/0", b"x"),
    ("GET", "entries?from=9&max_bytes=10", b""),
    ("GET", "entries?from=one&max_bytes=10", b""),
    ("PUT", "uploads/u/one", b""),
    ("PUT", SAVE, b""),
    ("PUT", "uploads/v/0", OTHER_FRAMED),
    ("PUT", BAD_SAVE, b""),
    ("GET", "snapshots/2?crc32c=0&from=0", b""),
    ("POST", "trim?before=9", b""),
]
TRIMMED: list[Sent] = [("PUT", "entries/1", b"late"), ("GET", "entries?from=1&max_bytes=1", b"")]


def request(
    sent: Sent, *, token: str = "t", version: str = "1", damage: bytes = b""
) -> HttpRequest:
    method, path, body = sent
    target = wire.ROOT + path
    headers = (
        (wire.VERSION_HEADER, version),
        (wire.NAME_HEADER, "name-1"),
        (wire.CRC_HEADER, wire.request_crc("name-1", method, target, body)),
        ("Authorization", f"Bearer {token}"),
    )
    return HttpRequest(method, target, headers, body + damage)


async def log_with_two() -> MemoryLog:
    log = MemoryLog(SMALL)
    for position in (1, 2):
        await log.append(position, b"%d" % position)
    return log


class Watched:
    """The answered statuses, by method and path of the specification."""

    def __init__(self) -> None:
        self.statuses: dict[tuple[str, str], set[int]] = defaultdict(set)

    async def ask(self, service: LogService, sent: HttpRequest) -> HttpAnswer:
        answer = await service.handle(sent)
        assert answer.header(wire.VERSION_HEADER) == "1"
        assert answer.header(wire.CRC_HEADER) == wire.answer_crc(
            answer.header(wire.NAME_HEADER) or "", answer.status, answer.body
        )
        call = sent.method.lower(), written_path(sent.target)
        self.statuses[call].add(answer.status)
        assert is_as_written(answer, *call)
        return answer

    async def ask_all(self, service: LogService, all_sent: list[Sent]) -> None:
        for sent in all_sent:
            await self.ask(service, request(sent))


def written_path(target: str) -> str:
    """Return the documented path that matches a target, with as few parameters as possible."""
    path = target.partition("?")[0]
    patterns: dict[str, str] = {each: re.sub(r"{\w+}", "[^/]+", each) for each in WRITTEN["paths"]}
    fitting = [each for each, pattern in patterns.items() if re.fullmatch(pattern, path)]
    return min(fitting, key=lambda each: each.count("{"))


def referred(written: dict[str, Any]) -> dict[str, Any]:
    """Return a node, or the node that it refers to if it is a reference."""
    if "$ref" not in written:
        return written
    found = WRITTEN
    for step in written["$ref"].removeprefix("#/").split("/"):
        found = found[step]
    return found


def is_as_written(answer: HttpAnswer, method: str, path: str) -> bool:
    """Return whether the body of an answer has the form that is documented for its status."""
    written = WRITTEN["paths"][path][method]["responses"].get(str(answer.status))
    form = written and referred(written).get("content", {}).get("application/json")
    return form is None or fits(json.loads(answer.body), referred(form["schema"]))


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Return whether a value fits a schema; knows only the keywords that the contract uses."""
    if "const" in schema:
        return bool(value == schema["const"])
    if isinstance(value, bool) is not (schema["type"] == "boolean"):
        return False
    if schema["type"] == "object":
        forms = schema["properties"]
        return set(schema["required"]) <= value.keys() <= forms.keys() and all(
            fits(value[each], referred(forms[each])) for each in value
        )
    if not isinstance(value, TYPES[schema["type"]]):
        return False
    if isinstance(value, str):
        return re.search(schema.get("pattern", ""), value) is not None
    return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))


async def test_every_status_that_is_written_is_answered_and_no_other() -> None:
    seen = Watched()
    log = await log_with_two()
    service = LogService(log, token=Secret("t"))
    await seen.ask_all(service, REFUSED)
    await seen.ask_all(service, GOOD)
    await seen.ask_all(service, TRIMMED)
    for sent in GOOD:
        await seen.ask(service, request(sent, token="other"))
        await seen.ask(service, request(sent, version="2"))
        await seen.ask(service, request(sent, damage=b"!"))
    await seen.ask_all(LogService(log, token=None, read_only=True), GOOD)
    for faults in (LogFaults(outage=1.0), LogFaults(snapshot_damage=1.0)):
        failing = LogService(FaultyLog(log, faults, random.Random(1)), token=None)
        await seen.ask_all(failing, GOOD)
    await fill_uploads(seen, service)

    written = {
        (method, path): {int(status) for status in call["responses"]}
        for path, calls in WRITTEN["paths"].items()
        for method, call in calls.items()
    }
    assert seen.statuses == written


async def fill_uploads(seen: Watched, service: LogService) -> None:
    """Put the same bytes, at no cost of memory, until an upload is too large."""
    part = b"x" * wire.MAX_PART_BYTES
    for number in range((1 << 30) // wire.MAX_PART_BYTES + 1):
        await seen.ask(service, request(("PUT", f"uploads/large/{number}", part)))


def test_every_call_that_is_written_is_served_and_no_other() -> None:
    served = {
        (method.lower(), wire.ROOT + path)
        for method, path in LogService(MemoryLog(), token=None).calls
    }
    written = {
        (method, re.sub(r"{\w+}", "*", path))
        for path, calls in WRITTEN["paths"].items()
        for method in calls
    }
    assert served == written


async def test_undocumented_calls_are_refused() -> None:
    service = LogService(MemoryLog(), token=None)
    for path, calls in WRITTEN["paths"].items():
        target = re.sub(r"{\w+}", "1", path)
        for method in {"GET", "PUT", "POST", "DELETE"} - {each.upper() for each in calls}:
            # A PUT of "newest" is routed as a PUT of a position.
            if (method, path) != ("PUT", "/v1/snapshots/newest"):
                sent = request((method, target.removeprefix(wire.ROOT), b""))
                assert (await service.handle(sent)).status == 405
    for target in ("/", "/v2/log", "/v1/", "/v1/entries/1/2", "/v1/nothing", "/other/v1/log"):
        assert (await service.handle(HttpRequest("GET", target))).status == 404


def test_all_that_is_referred_to_is_there() -> None:
    for reference in re.findall(r'"(#/[^"]+)"', json.dumps(WRITTEN)):
        assert referred({"$ref": reference})
