"""The answers of Apache Kafka: compat-tests/expected/mutated_batches.json.

Equal facts are written once, with the numbers of their cases.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.places import KAFKA_VERSION

from mutated_batches.asking import Facts
from mutated_batches.cases import cases

GOLDEN: Final = Path(__file__).parents[1] / "expected" / "mutated_batches.json"


def digest() -> str:
    """Return a digest of all cases, which shows whether a recording is of the same cases."""
    text = "\n".join(map(str, cases()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write(found: Mapping[int, Facts]) -> None:
    """Write the file."""
    numbers: dict[str, list[int]] = {}
    for number, facts in found.items():
        numbers.setdefault(json.dumps(facts), []).append(number)
    lines = [f'  "kafka": "{KAFKA_VERSION}"', f'  "cases": "{digest()}"']
    rows = ",\n".join(f"    [{facts}, {each}]" for facts, each in numbers.items())
    lines.append(f'  "facts": [\n{rows}\n  ]')
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read() -> dict[int, Facts]:
    """Return Kafka's facts of each case.

    Raises:
      ValueError: the file was recorded with other cases.
    """
    content = json.loads(GOLDEN.read_text())
    if content["cases"] != digest():
        raise ValueError("recorded of other cases: run mutated_batches/record.py")
    return {number: facts for facts, numbers in content["facts"] for number in numbers}
