"""Gateways of different releases can read each other's proposals and answers."""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

import msgspec
import pytest

import tidegate_coordination.rules
from tidegate_coordination.forwarding import codec
from tidegate_coordination.rules.numbered import Failing, Numbered
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts, BatchOutcome, Refusal
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.rules.security.permitted import Permitted
from tidegate_coordination.rules.topics import (
    Created,
    CreateTopics,
    Deleted,
    DeleteTopics,
    NewTopic,
    Refused,
    TopicKey,
    TopicRefusal,
)
from tidegate_coordination.state.records.objects import WalName

FACTS = Path(__file__).parents[1] / "facts" / "forwarded_proposals.json"


def shape(kind: Any) -> str:
    """Describe a type as it is encoded: its fields, and enumerations by their values."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"{kind.__name__}({', '.join(repr(each.value) for each in kind)})"
    fields = getattr(kind, "__annotations__", {}) if isinstance(kind, type) else {}
    if fields:
        hints = get_type_hints(kind)
        names = (
            [each.name for each in dataclasses.fields(kind) if each.init]
            if dataclasses.is_dataclass(kind)
            else [each for each in hints if get_origin(hints[each]) is not ClassVar]
        )
        return f"{kind.__name__}({', '.join(f'{n}: {shape(hints[n])}' for n in names)})"
    arguments = get_args(kind)
    if arguments:
        name = getattr(kind, "__name__", type(kind).__name__)
        return f"{name}[{', '.join(shape(each) for each in arguments)}]"
    return getattr(kind, "__name__", str(kind))


def described(kind: type[Any]) -> list[str]:
    [answer] = get_args(get_type_hints(kind.decide)["return"])
    return [shape(kind), shape(answer)]


def test_every_proposal_can_be_sent() -> None:
    found: set[type[Any]] = set()
    folder = tidegate_coordination.rules
    for module in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}."):
        rules = importlib.import_module(module.name)
        found |= {
            each
            for each in vars(rules).values()
            if dataclasses.is_dataclass(each) and isinstance(each, type) and hasattr(each, "decide")
        }
    assert found - {Numbered, Failing, Permitted} == set(codec.KINDS)


def test_the_wire_shapes_of_proposals_are_unchanged() -> None:
    """Fields may be added at the end, with a default; no other change is compatible."""
    known = json.loads(FACTS.read_text())
    shapes = {each.__name__: described(each) for each in codec.KINDS}
    added = {name: shape for name, shape in shapes.items() if name not in known}
    assert added == {}, f"add to the end of {FACTS.name}:\n{json.dumps(added, indent=2)}"
    assert shapes == known


@pytest.mark.parametrize(
    ("proposal", "answer"),
    [
        (
            CommitWal(
                WalName(1, 2),
                5,
                [BatchFacts(b"t" * 16, 0, 0, 10, 1, 2, 3, 9, 0, 2_147_483_647, 0)],
                frozenset({b"t" * 16}),
            ),
            [BatchOutcome(None, 1, -1, 0), BatchOutcome(Refusal.ABANDONED, -1, -1, -1)],
        ),
        (
            CreateTopics([NewTopic(b"n" * 16, "n", 3, configs={"a": "b"})]),
            [Created(b"n" * 16, 3, 1, {"a": "b"}), Refused(TopicRefusal.EXISTS, "text")],
        ),
        (
            DeleteTopics([TopicKey("n"), TopicKey(None, b"n" * 16)]),
            [Deleted(b"n" * 16, "n"), Refused(TopicRefusal.UNKNOWN_ID, "")],
        ),
    ],
)
def test_proposals_and_answers_survive_encoding_and_decoding(proposal: Any, answer: object) -> None:
    kind = codec.kind_of(proposal)
    assert kind is not None
    body = codec.encode_proposal(proposal)
    arrived = codec.decode_proposal(kind, body)
    assert type(arrived) is type(proposal)
    assert codec.encode_proposal(arrived) == body
    assert codec.decode_answer(kind, codec.encode(answer)) == answer


@pytest.mark.parametrize(("flags", "length"), [(0, 11), (1, 12)])
def test_a_batch_outside_transactions_has_the_fields_that_older_releases_know(
    flags: int, length: int
) -> None:
    """An older release accepts a batch only as an array of exactly 11 fields.

    A gateway of such a release may lead while one of a newer release forwards.
    """
    batch = BatchFacts(b"t" * 16, 0, 0, 10, 1, 2, 3, 9, 0, 1, 1, flags)
    proposal = CommitWal(WalName(1, 2), 5, [batch])
    body = codec.encode_proposal(proposal)
    assert [len(each) for each in msgspec.msgpack.decode(body)["batches"]] == [length]
    arrived: Any = codec.decode_proposal("CommitWal", body)
    assert arrived.batches == [batch]


def test_fields_that_a_newer_release_adds_are_skipped() -> None:
    body = codec.encode({"incarnation": 7, "added later": 1, "reads": ["everything"]})
    arrived: Any = codec.decode_proposal("StartDraining", body)
    assert arrived.incarnation == 7
    assert arrived.reads == arrived.writes


def test_undecodable_messages_are_refused() -> None:
    with pytest.raises(codec.UnknownKind):
        codec.decode_proposal("Later", b"")
    for body in (b"", b"\xc1", b"\x80", codec.encode({"incarnation": "x"}), b"\x91" * 5000):
        with pytest.raises(codec.Unreadable):
            codec.decode_proposal("StartDraining", body)
        with pytest.raises(codec.Unreadable):
            codec.decode_answer("CommitWal", body)
