"""Patterns of a link's topics."""

from __future__ import annotations

import pytest

from tidegate_coordination.name_patterns import BadPattern
from tidegate_gateway.migration.mirror.source_topics import TopicPatterns


@pytest.mark.parametrize(
    ("pattern", "why"),
    [("orders(", "missing ): orders("), ("[a", "missing ]"), ("*", "no argument")],
)
def test_a_wrong_pattern_is_told_in_words(pattern: str, why: str) -> None:
    with pytest.raises(BadPattern) as refused:
        TopicPatterns((pattern,))
    assert why in str(refused.value)
    assert "b'" not in str(refused.value)
