"""Every malformed batch of the simulator is refused, and its sound form is not."""

from __future__ import annotations

from random import Random

import pytest

from tidegate_coordination.configs.effective import BrokerLayers
from tidegate_coordination.configs.topic_settings import TopicSettings, compile_topic_settings
from tidegate_gateway.produce.record_checks import looked_at
from tidegate_gateway.produce.refusals import BatchRefused
from tidegate_gateway.requests.records.produce_rules import accepted_header
from tidegate_protocol.compression import Codec
from tidegate_protocol.error_codes import ErrorCode
from tidegate_simulation.clients.malformed_batches import (
    KINDS,
    Malformed,
    Sound,
    codecs_of,
    damaged,
    malformed_batch,
)
from tidegate_simulation.plans.malformed_plan import MAX_DECOMPRESSED_BYTES

NOW_MS = 1_700_000_000_000
SETTINGS: TopicSettings = compile_topic_settings({}, BrokerLayers())
SOUND = Sound([11, 12, 13], NOW_MS, (5, 0), 7)


def answer(batch: Malformed) -> tuple[ErrorCode, tuple[int, ...]]:
    data = memoryview(batch.data)
    try:
        header = accepted_header(data, SETTINGS, 9)
        looked_at(SETTINGS, data, header, NOW_MS, MAX_DECOMPRESSED_BYTES, lambda: False)
    except BatchRefused as refused:
        return refused.code, tuple(place for place, _ in refused.record_errors)
    return ErrorCode.NONE, ()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_refused_with_every_codec(kind: str) -> None:
    assert codecs_of(kind)
    for codec in codecs_of(kind):
        for seed in range(6):
            batch = damaged(Random(seed), kind, codec, SOUND)
            assert answer(batch) == (batch.code, batch.named), codec


@pytest.mark.parametrize("codec", Codec)
def test_the_sound_form_is_taken(codec: Codec) -> None:
    assert answer(damaged(Random(1), "", codec, SOUND)) == (ErrorCode.NONE, ())


def test_most_kinds_are_drawn_soon() -> None:
    rng = Random(1)
    drawn = {malformed_batch(rng, SOUND).kind for _ in range(400)}
    assert len(drawn) > 0.9 * len(KINDS)
