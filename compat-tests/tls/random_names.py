"""Random names of certificates, as Java reads them: the golden ones, and many more.

compat-tests/run tls-names [--count N] [--seed N]   ours beside Java's
compat-tests/run tls-names-record                   the golden file of the tests
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from runner.result import Result, say
from runner.shared import NoOptions

from tidegate_runtime.tls.der import BadDer
from tidegate_runtime.tls.distinguished_names import java_name

GOLDEN = Path(__file__).parents[2] / "runtime/tests/tls/java_names.json"
GOLDEN_COUNT = 300
PROGRAM = Path(__file__).parent / "Names.java"

# Attribute types with a keyword in RFC 2253, some with a keyword elsewhere, and unknown ones.
TYPES = (
    *(f"2.5.4.{each}" for each in (3, 3, 3, 6, 7, 8, 9, 10, 11, 11, 4, 5, 12, 17, 42, 46)),
    "0.9.2342.19200300.100.1.1",
    "0.9.2342.19200300.100.1.25",
    "1.2.840.113549.1.9.1",
    "1.3.6.1.4.1.311.60.2.1.3",
    "2.999.1",
    "2.16.840.1.113730.3.1.3",
)
# The tags of all string types, and some of other types.
TAGS = (0x0C, 0x0C, 0x0C, 0x13, 0x13, 0x14, 0x16, 0x1A, 0x1B, 0x1C, 0x1E, 0x12, 0x02, 0x04, 0x03)
PIECES = (
    *"abcXYZ09 -.'()/:?",
    *',=+<>#;"\\',
    *" \r\n\t\0\x7f",
    *"äßÜéИ中☃\U0001d518\u200b\ufeff\u0130\u0131",
    "  ",
    "\\,",
)


def der(tag: int, body: bytes) -> bytes:
    """Return a DER element."""
    size = len(body)
    if size < 0x80:
        return bytes([tag, size]) + body
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + body


def object_id(dotted: str) -> bytes:
    """Return an object identifier."""
    first, second, *others = map(int, dotted.split("."))
    return der(0x06, b"".join(_base128(each) for each in (first * 40 + second, *others)))


def _base128(number: int) -> bytes:
    found = [number & 0x7F]
    while number := number >> 7:
        found.append(number & 0x7F | 0x80)
    return bytes(reversed(found))


def random_name(random: Random) -> bytes:
    """Return a name in DER."""
    parts = [
        der(0x31, b"".join(_attribute(random) for _ in range(random.choice((1, 1, 1, 2, 3)))))
        for _ in range(random.choice((0, 1, 1, 2, 3, 5)))
    ]
    return der(0x30, b"".join(parts))


def _attribute(random: Random) -> bytes:
    tag = random.choice(TAGS)
    text = "".join(random.choices(PIECES, k=random.choice((0, 1, 2, 5, 9, 30))))
    if random.random() < 0.3:
        text = "".join(random.choices("abcdefgh XYZ.-", k=12))
    codec = {0x1E: "utf-16-be", 0x1C: "utf-32-be", 0x14: "latin-1"}.get(tag, "utf-8")
    body = text.encode(codec, "replace")
    return der(0x30, object_id(random.choice(TYPES)) + der(tag, body))


def java_names(names: list[bytes]) -> list[str | None]:
    """Return Java's texts; None for a name that it refuses."""
    lines = "\n".join(each.hex() for each in names)
    done = subprocess.run(
        ["java", str(PROGRAM)], input=lines, capture_output=True, text=True, check=True
    )
    found = done.stdout.splitlines()
    return [None if each == "refused" else bytes.fromhex(each).decode() for each in found]


def differences(count: int, seed: int) -> Iterator[tuple[bytes, str | None, str | None]]:
    """Yield names, with Java's text and ours, that are not equal."""
    random = Random(seed)
    names = [random_name(random) for _ in range(count)]
    for name, wanted in zip(names, java_names(names), strict=True):
        if wanted is not None and (found := ours(name)) != wanted:
            yield name, wanted, found


def ours(name: bytes) -> str | None:
    """Return our text, None for a name that is refused."""
    try:
        return java_name(name)
    except BadDer:
        return None


@dataclass(frozen=True)
class Options:
    """The options."""

    count: int = 10_000
    seed: int = 2


def main(options: Options) -> Result:
    """Compare ours with Java's."""
    wrong = list(differences(options.count, options.seed))
    for name, wanted, found in wrong[:20]:
        say("\n".join([name.hex(), f"java: {wanted!r}", f"here: {found!r}"]))
    return Result(not wrong, f"{options.count} names, {len(wrong)} differ")


def record(options: NoOptions) -> Result:
    """Write the golden file of the tests."""
    random = Random(1)
    names = [random_name(random) for _ in range(GOLDEN_COUNT)]
    answers = zip(names, java_names(names), strict=True)
    rows = [json.dumps([each.hex(), text]) for each, text in answers if text is not None]
    GOLDEN.write_text("[\n" + ",\n".join(rows) + "\n]\n")
    return Result(is_good=True)
