"""Subjects as Java writes them: names that compat-tests/run tls-names asked a JVM for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidegate_runtime.tls.der import BadDer
from tidegate_runtime.tls.distinguished_names import java_name

GOLDEN = json.loads((Path(__file__).parent / "java_names.json").read_text())


def test_names_are_javas() -> None:
    assert len(GOLDEN) > 250
    found = [java_name(bytes.fromhex(name)) for name, _ in GOLDEN]
    assert found == [text for _, text in GOLDEN]


@pytest.mark.parametrize(
    "hexadecimal",
    [
        "",
        "3003",  # cut
        "300431023000",  # an attribute without type
        "30053103300106",
        "1f00",
        "3080",  # a length of unknown size
        "30850000000000",
    ],
)
def test_what_is_no_name_is_refused(hexadecimal: str) -> None:
    with pytest.raises(BadDer):
        java_name(bytes.fromhex(hexadecimal))
