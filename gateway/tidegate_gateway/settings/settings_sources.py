"""The sources of settings, lowest first: TOML, server.properties, the environment, --set.

Each source gives texts by dotted name; BrokerSettings reads the texts.  Only gather() opens files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from tidegate_coordination.configs.broker_configs import BROKER_CONFIGS
from tidegate_coordination.configs.listener_configs import static_definition
from tidegate_coordination.configs.own_settings import ADDRESSES, REMOVED_SETTINGS
from tidegate_runtime.settings_texts import (
    BadSource,
    SettingsError,
    Texts,
    read_assignments,
    read_properties,
    read_toml,
)
from tidegate_runtime.url_secrets import without_secrets

from .broker_settings import BrokerSettings
from .config_providers import is_of_provider, with_provided
from .service_links import is_service_link

PREFIX: Final = "TIDEGATE_"
# `tidegate pipeline` reads these variables, and may run in the same environment.
PIPELINE_PREFIX: Final = "TIDEGATE_PIPELINE_"
# Apache Kafka's container images read these variables.  Those that are no settings are ignored.
KAFKA_PREFIX: Final = "KAFKA_"
MAX_FILE_BYTES: Final = 1 << 20


def gather(
    *,
    defaults: Mapping[str, str],
    toml_file: Path | None = None,
    properties_file: Path | None = None,
    environ: Mapping[str, str],
    assignments: Iterable[str],
) -> BrokerSettings:
    """Read all sources and return the settings; later sources win.

    Args:
      defaults: override the table's defaults; any source overrides them.
      assignments: "name=value", from the command line.

    Raises:
      BadSource: a source cannot be read or names an unknown setting, or a value is invalid.
    """
    texts = dict(defaults)
    if toml_file is not None:
        texts |= _known(_toml(_content(toml_file), toml_file), str(toml_file))
    if properties_file is not None:
        content = _content(properties_file)
        texts |= _known(read_properties(content, str(properties_file)), str(properties_file))
    texts |= from_environment(environ)
    texts |= _known(read_assignments(assignments), "--set")
    texts = with_provided(texts, environ)
    try:
        return BrokerSettings(texts)
    except SettingsError as error:
        raise BadSource(str(error)) from error


def secrets_in_view(assignments: Iterable[str]) -> list[str]:
    """Return the names of secrets on the command line, which `ps` shows to all users.

    References to other places (config_providers.py) and addresses without a secret do not count.
    """
    return [name for name, text in read_assignments(assignments).items() if _is_in_view(name, text)]


def _is_in_view(name: str, text: str) -> bool:
    definition = static_definition(name)
    if definition is None or not definition.is_sensitive or not text or text.startswith("${"):
        return False
    return name not in ADDRESSES or without_secrets(text) != text


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


def _toml(content: str, file: Path) -> Texts:
    try:
        return read_toml(content, str(file))
    except BadSource as error:
        if file.suffix != ".properties" and not _are_properties(content, str(file)):
            raise
        raise BadSource(f"{error}. Give a server.properties with --properties.") from error


def _are_properties(content: str, source: str) -> bool:
    """Return whether a text that is no TOML has settings of a server.properties file."""
    try:
        return bool(read_properties(content, source).keys() & BROKER_CONFIGS.keys())
    except BadSource:
        return False


def _known(texts: Texts, source: str) -> Texts:
    """Refuse unknown names; otherwise a misspelt name would be ignored."""
    for name in texts:
        if not _is_accepted(name):
            raise BadSource(f"{source}: unknown setting {name}{_nearest(name)}")
    return texts


def _is_accepted(name: str) -> bool:
    is_known = name in REMOVED_SETTINGS or static_definition(name) is not None
    return is_known or is_of_provider(name)


def _nearest(name: str) -> str:
    near = get_close_matches(name, BROKER_CONFIGS, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def from_environment(environ: Mapping[str, str]) -> Texts:
    """Read variables such as TIDEGATE_LISTENERS, which override those such as KAFKA_LISTENERS.

    The KAFKA_ names are those of Kafka's image.

    Skips names of the pipeline, and variables of Kubernetes for Services called tidegate.

    Raises:
      BadSource: a TIDEGATE_ name is no setting.
    """
    kafka = {_dotted(key, KAFKA_PREFIX): text for key, text in _with_prefix(environ, KAFKA_PREFIX)}
    texts = {name: text for name, text in kafka.items() if static_definition(name)}
    for key, text in _with_prefix(environ, PREFIX):
        if key.startswith(PIPELINE_PREFIX):
            continue
        name = _dotted(key, PREFIX)
        if not _is_accepted(name):
            if is_service_link(key, text):
                continue
            raise BadSource(f"environment: {key} names no setting{_nearest(name)}")
        texts[name] = text
    return texts


def settings_in(environ: Mapping[str, str]) -> list[str]:
    """Return the TIDEGATE_ variables that a gateway would read or refuse."""
    return [
        key
        for key, text in _with_prefix(environ, PREFIX)
        if not key.startswith(PIPELINE_PREFIX)
        and (static_definition(_dotted(key, PREFIX)) or not is_service_link(key, text))
    ]


def _with_prefix(environ: Mapping[str, str], prefix: str) -> list[tuple[str, str]]:
    return [(key, text) for key, text in sorted(environ.items()) if key.startswith(prefix)]


def _dotted(key: str, prefix: str) -> str:
    """Return node.id for NODE_ID.

    As in Kafka's image, two underscores stand for one, and three for a dash.
    """
    name = key.removeprefix(prefix).lower()
    return name.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")
