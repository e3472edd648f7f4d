"""The packed maps of open transactions behave as dicts do."""

from __future__ import annotations

from random import Random

import pytest

from tidegate_coordination.state.records.open_spans import OpenSpans
from tidegate_coordination.state.transactions.int_map import IntMap


def test_an_int_map_is_a_map() -> None:
    rng = Random(1)
    for _ in range(50):
        packed, model = IntMap(), dict[int, int]()
        for _ in range(60):
            key = rng.choice([rng.randrange(30), rng.randrange(2**62)])
            if rng.random() < 0.3:
                assert packed.pop(key, None) == model.pop(key, None)
            elif rng.random() < 0.3:
                assert packed.setdefault(key, 1) == model.setdefault(key, 1)
            else:
                packed[key] = model[key] = rng.randrange(-1, 2**62)
            assert (key in packed, packed.get(key, -5)) == (key in model, model.get(key, -5))
        assert packed == model
        assert list(packed) == sorted(model)
        assert list(packed.as_dict().items()) == sorted(model.items())
        assert len(packed) == len(model)
        assert packed.has_keys(reversed(list(model)))
        assert not packed.has_keys([*model, 2**62 + 1])
        assert not packed.has_keys(list(model)[1:])
        assert IntMap(model.items()) == packed


def test_an_int_map_lacks_what_was_never_set() -> None:
    packed = IntMap([(3, 4)])
    with pytest.raises(KeyError):
        packed[2]
    with pytest.raises(KeyError):
        del packed[5]
    other: object = "3"
    assert other not in packed


def test_open_transactions_end_in_any_order() -> None:
    rng = Random(1)
    for _ in range(50):
        spans, model = OpenSpans(), dict[int, int]()
        offset = 0
        for _ in range(60):
            producer_id = rng.randrange(9)
            if producer_id in model:
                assert producer_id in spans
                assert spans.end(producer_id) == model.pop(producer_id)
            else:
                assert producer_id not in spans
                assert spans.end(producer_id) is None
                # A later event of the same object may begin at an earlier offset.
                offset += rng.choice([1, 5, -2]) if offset > 10 else 3
                if offset not in model.values():
                    spans.begin(producer_id, offset)
                    model[producer_id] = offset
            assert spans.as_dict() == model
            assert bool(spans) == bool(model)
            if model:
                assert spans.lowest == min(model.values())
        in_order = sorted(model.items(), key=lambda pair: pair[1])
        assert list(OpenSpans(model.items()).as_dict().items()) == in_order
