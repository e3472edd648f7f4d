"""Settings as texts by name: the readers of TOML, server.properties and `name=value`.

Plain functions from text to a table; callers interpret the values.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

Texts = dict[str, str]


class BadSource(Exception):
    """A file or argument cannot be read as settings.  The text says which and why."""


class SettingsError(Exception):
    """A setting is unknown or wrong.  Do not start; show the text."""


# -- TOML -----------------------------------------------------------------------------------------


def read_toml(content: str, source: str) -> Texts:
    """Read TOML; `[wal] linger.ms = 5` and `wal.linger.ms = 5` mean the same.

    Raises:
      BadSource: not TOML, or a value that no setting has.
    """
    try:
        return dict(_flat(tomllib.loads(content), "", source))
    except tomllib.TOMLDecodeError as error:
        raise BadSource(f"{source} is not TOML: {error}") from error


def _flat(table: Mapping[str, Any], prefix: str, source: str) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, dict):
            yield from _flat(cast("dict[str, Any]", value), f"{name}.", source)
        else:
            yield name, _text(value, name, source)


def _text(value: object, name: str, source: str) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | float():
            return str(value)
        case list():
            items = cast("list[object]", value)
            return ",".join(_text(item, name, source) for item in items)
        case _:
            raise BadSource(f"{source}: {name} is neither text, number, boolean nor list")


# -- server.properties ----------------------------------------------------------------------------


def read_properties(content: str, source: str) -> Texts:
    r"""Read the notation of java.util.Properties: `name=value`, `name: value`, `\` at ends.

    Raises:
      BadSource: a broken escape.
    """
    texts: Texts = {}
    for line in _logical_lines(content):
        name, value = _split_property(line)
        texts[_unescaped(name, source)] = _unescaped(value, source).strip()
    return texts


def _logical_lines(content: str) -> Iterator[str]:
    """Join continued lines; drop comments and empty lines."""
    started = ""
    for natural in content.splitlines():
        line = natural.lstrip(" \t\f")
        if not started and (not line or line[0] in "#!"):
            continue
        is_continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        if is_continued:
            started += line[:-1]
            continue
        yield started + line
        started = ""
    if started:
        yield started


def _split_property(line: str) -> tuple[str, str]:
    """Split at the first `=`, `:` or blank that is not escaped."""
    at = 0
    while at < len(line) and line[at] not in "=: \t\f":
        at += 2 if line[at] == "\\" else 1
    rest = line[at:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return line[:at], rest


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescaped(text: str, source: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    rest = iter(text)
    for character in rest:
        if character != "\\":
            out.append(character)
            continue
        escaped = next(rest, "")
        if escaped == "u":
            out.append(_unicode("".join(next(rest, "") for _ in range(4)), source))
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    return _joined("".join(out), source)


def _joined(text: str, source: str) -> str:
    """Join two escapes that are the 16-bit halves of one character in Java."""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise BadSource(f"{source} has half a character: write both its \\u escapes") from None


def _unicode(digits: str, source: str) -> str:
    if not re.fullmatch(r"[0-9A-Fa-f]{4}", digits):
        # No digit is shown: they may be part of a password with a backslash.
        raise BadSource(f"{source} has an incomplete \\u escape: write \\\\ for a backslash")
    return chr(int(digits, 16))


# -- command line ---------------------------------------------------------------------------------


def read_assignments(assignments: Iterable[str]) -> Texts:
    """Read "name=value" items.

    Raises:
      BadSource: an item without "=".
    """
    texts: Texts = {}
    for number, item in enumerate(assignments, 1):
        name, equals, text = item.partition("=")
        if not equals:  # the item is not shown, since it may hold a secret
            raise BadSource(
                f'--set number {number} has no "=": write name=value, such as'
                " --set num.partitions=3"
            )
        texts[name.strip()] = text.strip()
    return texts
