"""Write the parts of pages that repeat the code and the bench: APIs, settings, benchmarks.

python gateway/generate_docs.py            write them into the pages
python gateway/generate_docs.py --check    exit 1 when a page differs

A part stands between two comments of its page, `<!-- begin NAME -->` and `<!-- end NAME -->`.  The
text around it is written by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Final

from tidegate_bench.measure import published
from tidegate_coordination.configs.broker_configs import (
    BROKER_CONFIGS,
    KAFKA_BROKER_CONFIGS,
    OF_AUTHORIZER,
    OF_LISTENERS_ONLY,
)
from tidegate_coordination.configs.cluster_wide import CLUSTER_WIDE
from tidegate_coordination.configs.definition import INT_MAX, LONG_MAX, Definition, Update
from tidegate_coordination.configs.group_configs import GROUP_CONFIGS
from tidegate_coordination.configs.own_settings import OWN_SETTINGS
from tidegate_coordination.configs.topic_configs import TOPIC_CONFIGS
from tidegate_gateway import requests
from tidegate_gateway.settings.listener_settings import DEFAULT_LISTENERS
from tidegate_gateway.unserved import unserved_api
from tidegate_protocol.apis import APIS, ApiFacts

ROOT: Final = Path(__file__).parents[1]
COLUMNS: Final = 100
# Kafka's API keys are all below 256.
API_KEYS: Final = range(256)

# The defaults of `serve` that differ from those in the tables of settings.
_DEFAULTS_HERE: Final = {"listeners": DEFAULT_LISTENERS}
_NO_LIMITS: Final = frozenset({str(INT_MAX), str(LONG_MAX)})
_BYTES: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_TIMES_MS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def main() -> int:
    """Write or compare all pages; return the exit code."""
    parser = argparse.ArgumentParser(description="Write the generated parts of pages")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    is_check = parser.parse_args().check
    stale: list[str] = []
    for name, parts in PAGES.items():
        page = ROOT / name
        present = page.read_text()
        wanted = with_parts(present, parts)
        if wanted != present:
            stale.append(name)
        if not is_check:
            page.write_text(wanted)
    if not (stale and is_check):
        return 0
    for name in stale:
        print(f"{name} is old: run .venv/bin/python gateway/generate_docs.py", file=sys.stderr)
    return 1


def with_parts(page: str, parts: Mapping[str, Callable[[], str]]) -> str:
    """Return a page with its generated parts replaced by the present texts."""
    for name, text_of in parts.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        assert found, f"{begin} is missing"
        assert closed, f"{end} is missing"
        page = f"{before}{begin}\n\n{text_of().strip()}\n\n{end}{after}"
    return page


# -- APIs -----------------------------------------------------------------------------------------


def served_apis() -> list[ApiFacts]:
    """Return the APIs whose handlers stand in the rows of features, by key."""
    folders = (each.name for each in iter_modules(requests.__path__) if each.ispkg)
    features = [import_module(f"{requests.__name__}.{each}.feature") for each in folders]
    keys = {getattr(each, "api_key", None) for module in features for each in vars(module).values()}
    return [APIS[key] for key in sorted(key for key in keys if isinstance(key, int))]


def api_table() -> str:
    """Return a row for each API that is served."""
    rows = [
        f"| {each.name} | {each.key} | {_versions(each.min_version, each.max_version)} |"
        for each in served_apis()
    ]
    return "\n".join(["| API | key | versions |", "|---|---|---|", *rows])


def refusals() -> str:
    """Return the APIs that clients ask for and gateways do not serve, with the setting to avoid
    them.
    """
    keys: dict[tuple[str, str], list[int]] = {}
    served = {each.key for each in served_apis()}
    for key in API_KEYS:
        what, advice = unserved_api(key)
        if key not in served and not what.startswith("unknown"):
            keys.setdefault((what, advice), []).append(key)
    return "\n".join(
        _item(f"API key{'s' * (len(numbers) > 1)} {_ranges(numbers)}: {what}. Advice: {advice}.")
        for (what, advice), numbers in keys.items()
    )


def _versions(first: int, last: int) -> str:
    return f"{first} to {last}" if first != last else str(first)


def _ranges(numbers: list[int]) -> str:
    """Return rising numbers as text, with consecutive numbers as ranges."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(_versions(run[0], run[-1]) for run in runs)


# -- settings -------------------------------------------------------------------------------------


def own_settings() -> str:
    """Return Tidegate's own settings."""
    return _settings(OWN_SETTINGS)


def kafka_settings() -> str:
    """Return Kafka's broker configs that do something here."""
    known = [*KAFKA_BROKER_CONFIGS.values(), *OF_AUTHORIZER]
    return _settings(each for each in known if each.meaningful)


def topic_configs() -> str:
    """Return the topic configs that do something here."""
    return "\n".join(
        _entry(each, f"falls back to `{each.synonym}`" if each.synonym else "")
        for each in TOPIC_CONFIGS.values()
        if each.meaningful
    )


def inert_settings() -> str:
    """Return the names of Kafka's broker configs that do nothing here."""
    return _names(each for each in BROKER_CONFIGS.values() if not each.meaningful)


def inert_topic_configs() -> str:
    """Return the names of configs of topics and groups that do nothing here."""
    tables = (TOPIC_CONFIGS, GROUP_CONFIGS)
    kinds = ("Topics", "Groups")
    return "\n\n".join(
        _wrapped(f"{kind}: {_names(each for each in table.values() if not _is_of_use(each, kind))}")
        for kind, table in zip(kinds, tables, strict=True)
    )


def _is_of_use(definition: Definition, kind: str) -> bool:
    """Return whether a config has an effect; a config of a group never has one."""
    return kind == "Topics" and definition.meaningful


def _settings(definitions: Iterable[Definition]) -> str:
    return "\n".join(_entry(each, _update(each)) for each in definitions)


def _update(definition: Definition) -> str:
    """Return whether a setting can change at run time, and whether it is the cluster's."""
    name = definition.name
    is_fixed = definition.update is Update.READ_ONLY or name.startswith(OF_LISTENERS_ONLY)
    is_the_clusters = name in CLUSTER_WIDE
    return ", ".join(["dynamic"] * (not is_fixed) + ["the cluster's"] * is_the_clusters)


def _entry(definition: Definition, remark: str) -> str:
    kind = definition.type.name.lower()
    facts = f"{kind}, {_default(definition)}" + (f"; {remark}" if remark else "")
    return _item(f"`{definition.name}` ({facts}). {definition.documentation}")


def _default(definition: Definition) -> str:
    text = _DEFAULTS_HERE.get(definition.name, definition.default)
    if text is None:
        return "no default"
    if not text:
        return "default empty"
    words = _in_words(definition.name, text)
    return f"default `{text}`, {words}" if words else f"default `{text}`"


def _in_words(name: str, text: str) -> str:
    """Return a large number in the largest unit that divides it; "" for a small one."""
    if text in _NO_LIMITS:
        return "no limit"
    units = _TIMES_MS if name.endswith(".ms") else _BYTES if ".bytes" in name else ()
    if not text.isdecimal() or text == "0":
        return ""
    return next((f"{int(text) // each} {unit}" for each, unit in units if not int(text) % each), "")


def _names(definitions: Iterable[Definition]) -> str:
    return _wrapped(", ".join(f"`{each.name}`" for each in definitions) + ".")


# -- benchmarks -----------------------------------------------------------------------------------


def readme_benchmarks() -> str:
    """Return README's table of published figures."""
    return published.readme_part(_published_runs())


def performance_benchmarks() -> str:
    """Return the table of published figures in docs/performance.md."""
    return published.performance_part(_published_runs())


def _published_runs() -> list[published.Run]:
    return published.from_json((ROOT / published.FILE).read_bytes())


# -- Markdown -------------------------------------------------------------------------------------


def _item(text: str) -> str:
    """Return an item of a list.  Escape "<" outside of code: <host> is no tag."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    escaped = [each if each.startswith("`") else each.replace("<", r"\<") for each in parts]
    return _wrapped(f"- {''.join(escaped)}", indent="  ")


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


PAGES: Final[Mapping[str, Mapping[str, Callable[[], str]]]] = {
    "README.md": {"benchmarks": readme_benchmarks},
    "docs/api-support.md": {"apis": api_table, "refusals": refusals},
    "docs/configuration.md": {
        "own settings": own_settings,
        "kafka settings": kafka_settings,
        "topic configs": topic_configs,
        "inert settings": inert_settings,
        "inert configs": inert_topic_configs,
    },
    "docs/performance.md": {"benchmarks": performance_benchmarks},
}


if __name__ == "__main__":
    sys.exit(main())
