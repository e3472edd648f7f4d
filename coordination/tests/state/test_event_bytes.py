"""The bytes of events. Later releases read old logs, so events change only by new last fields."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from tidegate_coordination.events.entries import decode_entry, encode_entry, encode_events
from tidegate_fuzz.some_events import some_events

FACTS = Path(__file__).parents[1] / "facts" / "event_bytes.json"
LEVEL = 11  # of the cluster in the file; a later level changes no line


def lines() -> list[str]:
    """Return each event of the fuzzer with its name, and its bytes in hexadecimal."""
    events = some_events(LEVEL)
    pairs = zip(events, encode_events(events), strict=True)
    return [f"{type(event).__name__} {bytes(raw).hex()}" for event, raw in pairs]


def test_events_have_the_bytes_that_were_recorded() -> None:
    recorded: list[str] = json.loads(FACTS.read_text())
    lost = [each for each in recorded if each not in lines()]
    added = [each for each in lines() if each not in recorded]
    shown = json.dumps(added, indent=2)
    assert lost == [], f"logs have these bytes; only a new last field may change them: {shown}"
    assert added == [], f"add to the end of {FACTS.name}: {shown}"


def test_recorded_bytes_are_still_read_as_their_events() -> None:
    for line in json.loads(FACTS.read_text()):
        name, data = line.split()
        payload = encode_entry(b"n", 1, 1, [msgspec.Raw(bytes.fromhex(data))])
        [event] = decode_entry(payload, 1).events
        assert type(event).__name__ == name
        assert [bytes(each).hex() for each in encode_events([event])] == [data]
