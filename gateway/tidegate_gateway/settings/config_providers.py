"""Values from other places: ${env:NAME}, ${file:PATH:KEY}, ${dir:PATH:KEY} (KIP-297, KIP-421).

As in Kafka, a provider is named in `config.providers`, and `config.providers.NAME.class` says which
of Kafka's classes it is.  Such values are looked up once, at the start, and only in static
settings; in a dynamic config, ${...} is plain text.  No error shows a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from tidegate_runtime.settings_texts import BadSource, Texts, read_properties

PREFIX: Final = "config.providers."
NAMES: Final = "config.providers"
MAX_FILE_BYTES: Final = 1 << 20
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
_VARIABLE: Final = re.compile(r"\$\{([^}:]+):(?:([^}:]*):)?([^}]*)\}")

_Provider: TypeAlias = Callable[[str, str], str]
"""(path, key) -> the value.  Raises BadSource."""


def is_of_provider(name: str) -> bool:
    """Return whether a setting belongs to one provider."""
    return name.startswith(PREFIX)


def with_provided(texts: Texts, environ: Mapping[str, str]) -> Texts:
    """Return the settings with all values looked up, and without the settings of providers.

    Raises:
      BadSource: a provider is not known, or does not have a value.
    """
    own = {name: text for name, text in texts.items() if not is_of_provider(name)}
    named = [each.strip() for each in own.get(NAMES, "").split(",") if each.strip()]
    providers = {each: _provider(each, texts, environ) for each in named}
    if not providers:
        return own
    return {name: _looked_up(name, text, providers) for name, text in own.items()}


def _looked_up(name: str, text: str, providers: Mapping[str, _Provider]) -> str:
    def value(match: re.Match[str]) -> str:
        provider = providers.get(match[1])
        if provider is None:
            return match[0]  # Kafka leaves the text unchanged, too
        try:
            return provider(match[2] or "", match[3])
        except BadSource as error:
            raise BadSource(f"{name}: {error}") from error

    return _VARIABLE.sub(value, text)


def _provider(name: str, texts: Texts, environ: Mapping[str, str]) -> _Provider:
    prefix = f"{PREFIX}{name}."
    kind = texts.get(f"{prefix}class", "").strip()
    made = _KINDS.get(kind.removeprefix(_PACKAGE))
    if made is None:
        known = ", ".join(f"{_PACKAGE}{each}" for each in _KINDS)
        raise BadSource(
            f"{prefix}class={kind or '(not set)'} is no provider of gateways; there are {known}"
        )
    params = {
        each.removeprefix(f"{prefix}param."): text
        for each, text in texts.items()
        if each.startswith(f"{prefix}param.")
    }
    return made(params, environ)


def _of_environment(params: Mapping[str, str], environ: Mapping[str, str]) -> _Provider:
    pattern = params.get("allowlist.pattern", "")

    def value(path: str, key: str) -> str:
        if path:
            raise BadSource(f"${{env:{path}:...}} has a path; write ${{env:NAME}}")
        if pattern and re.fullmatch(pattern, key) is None:
            raise BadSource(f"the environment's {key} does not match allowlist.pattern")
        if key not in environ:
            raise BadSource(f"the environment has no {key}")
        return environ[key]

    return value


def _of_file(params: Mapping[str, str], _: Mapping[str, str]) -> _Provider:
    allowed = _allowed(params)
    read: dict[str, Texts] = {}

    def value(path: str, key: str) -> str:
        if path not in read:
            file = _checked(path, allowed)
            read[path] = read_properties(_content(file), path)
        if key not in read[path]:
            raise BadSource(f"{path} has no {key}")
        return read[path][key]

    return value


def _of_directory(params: Mapping[str, str], _: Mapping[str, str]) -> _Provider:
    allowed = _allowed(params)

    def value(path: str, key: str) -> str:
        if "/" in key:
            raise BadSource(f"{key!r} is not the name of a file in {path}")
        return _content(_checked(path, allowed) / key)

    return value


def _allowed(params: Mapping[str, str]) -> tuple[Path, ...]:
    return tuple(_paths(params.get("allowed.paths", "")))


def _paths(text: str) -> Iterator[Path]:
    for each in filter(None, (part.strip() for part in text.split(","))):
        if not Path(each).is_absolute():
            raise BadSource(f"allowed.paths: {each} is not an absolute path")
        yield Path(each).resolve()


def _checked(path: str, allowed: tuple[Path, ...]) -> Path:
    found = Path(path).resolve()
    if allowed and not any(found.is_relative_to(each) for each in allowed):
        raise BadSource(f"{path} is not below allowed.paths")
    return found


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise BadSource(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise BadSource(f"{path} is larger than {MAX_FILE_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadSource(f"{path} is not UTF-8 text") from None


_KINDS: Final[dict[str, Callable[[Mapping[str, str], Mapping[str, str]], _Provider]]] = {
    "EnvVarConfigProvider": _of_environment,
    "FileConfigProvider": _of_file,
    "DirectoryConfigProvider": _of_directory,
}
