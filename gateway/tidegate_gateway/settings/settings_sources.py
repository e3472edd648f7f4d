"""Where settings come from, lowest first: TOML, server.properties, the environment, --set.

All of them give texts by dotted name; what the texts mean is for BrokerSettings to say.  Readers
are plain functions from text to a table; gather() alone opens files.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, cast

from tidegate_coordination.configs.broker_configs import BROKER_CONFIGS
from tidegate_coordination.configs.own_settings import REMOVED_SETTINGS

from .broker_settings import BrokerSettings, SettingsError
from .service_links import is_service_link

PREFIX: Final = "TIDEGATE_"
# Read by `tidegate pipeline`, which may have the same environment.
PIPELINE_PREFIX: Final = "TIDEGATE_PIPELINE_"
# What the containers of Apache Kafka read; names that are not settings are theirs, not ours.
KAFKA_PREFIX: Final = "KAFKA_"
MAX_FILE_BYTES: Final = 1 << 20
_ACCEPTED: Final = BROKER_CONFIGS.keys() | REMOVED_SETTINGS

Texts = dict[str, str]


class BadSource(Exception):
    """A file or argument cannot be read as settings.  The text says which and why."""


def gather(
    *,
    defaults: Mapping[str, str],
    toml_file: Path | None = None,
    properties_file: Path | None = None,
    environ: Mapping[str, str],
    assignments: Iterable[str],
) -> BrokerSettings:
    """Read all sources and return the settings; later ones win.

    Args:
      defaults: below everything, but above the table's own defaults.
      assignments: "name=value", from the command line.

    Raises:
      BadSource: one of them cannot be read, or names a setting that does not exist.
      SettingsError: a value is not possible.
    """
    texts = dict(defaults)
    if toml_file is not None:
        texts |= _known(read_toml(_content(toml_file), str(toml_file)), str(toml_file))
    if properties_file is not None:
        content = _content(properties_file)
        texts |= _known(read_properties(content, str(properties_file)), str(properties_file))
    texts |= from_environment(environ)
    texts |= _known(read_assignments(assignments), "--set")
    try:
        return BrokerSettings(texts)
    except SettingsError as error:
        raise BadSource(str(error)) from error


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise BadSource(f"{path} is larger than {MAX_FILE_BYTES} bytes: not a settings file")
        return data.decode()
    except OSError as error:
        raise BadSource(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadSource(f"{path} is not UTF-8 text") from error


def _known(texts: Texts, source: str) -> Texts:
    """Refuse names that no setting has: a misspelt one would be ignored otherwise."""
    for name in texts:
        if name not in _ACCEPTED:
            raise BadSource(f"{source}: unknown setting {name}{_nearest(name)}")
    return texts


def _nearest(name: str) -> str:
    near = get_close_matches(name, BROKER_CONFIGS, n=1)
    return f"; did you mean {near[0]}?" if near else ""


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
    """Join continued lines; drop comments and empty ones."""
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
    return "".join(out)


def _unicode(digits: str, source: str) -> str:
    if not re.fullmatch(r"[0-9A-Fa-f]{4}", digits):
        raise BadSource(f"{source}: \\u{digits} is no character")
    return chr(int(digits, 16))


# -- environment and command line -----------------------------------------------------------------


def from_environment(environ: Mapping[str, str]) -> Texts:
    """Read TIDEGATE_LISTENERS for listeners, and below it KAFKA_LISTENERS, as Kafka's image does.

    Names of the pipeline are passed over, and what Kubernetes sets for Services called tidegate.

    Raises:
      BadSource: a TIDEGATE_ name that no setting has.
    """
    kafka = {_dotted(key, KAFKA_PREFIX): text for key, text in _with_prefix(environ, KAFKA_PREFIX)}
    texts = {name: text for name, text in kafka.items() if name in BROKER_CONFIGS}
    for key, text in _with_prefix(environ, PREFIX):
        if key.startswith(PIPELINE_PREFIX):
            continue
        name = _dotted(key, PREFIX)
        if name not in _ACCEPTED:
            if is_service_link(key, text):
                continue
            raise BadSource(f"environment: {key} names no setting{_nearest(name)}")
        texts[name] = text
    return texts


def settings_in(environ: Mapping[str, str]) -> list[str]:
    """Return the variables from which settings would be read; not those of Kafka's image."""
    return [
        key
        for key, text in _with_prefix(environ, PREFIX)
        if not key.startswith(PIPELINE_PREFIX)
        and (_dotted(key, PREFIX) in BROKER_CONFIGS or not is_service_link(key, text))
    ]


def _with_prefix(environ: Mapping[str, str], prefix: str) -> list[tuple[str, str]]:
    return [(key, text) for key, text in sorted(environ.items()) if key.startswith(prefix)]


def _dotted(key: str, prefix: str) -> str:
    """NODE_ID is node.id; two underscores stand for one, three for a dash, as in Kafka's image."""
    name = key.removeprefix(prefix).lower()
    return name.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def read_assignments(assignments: Iterable[str]) -> Texts:
    """Read "name=value" items.

    Raises:
      BadSource: an item without "=".
    """
    texts: Texts = {}
    for item in assignments:
        name, equals, text = item.partition("=")
        if not equals:
            raise BadSource(f"--set {item}: write name=value, such as --set num.partitions=3")
        texts[name.strip()] = text.strip()
    return texts
