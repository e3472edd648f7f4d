"""The pages of docs/ are true: their lists are those of the code, their links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
import typer.main

from tests.worlds.app_world import started_gateway
from tidegate_coordination.configs.broker_configs import BROKER_CONFIGS
from tidegate_coordination.configs.listener_configs import static_definition
from tidegate_coordination.configs.topic_configs import TOPIC_CONFIGS
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.metadata_versions import LEVELS, NEWEST
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.admin.metrics import gateway_metrics
from tidegate_gateway.cli.command import COMMANDS, app
from tidegate_gateway.cli.dev_zones.words import Verb
from tidegate_pipeline.commands.pages import driver_metrics
from tidegate_pipeline.driver import Driver
from tidegate_pipeline.planning.limits import MergeSettings
from tidegate_pipeline.runners.local_runner import LocalRunner
from tidegate_protocol.apis import APIS
from tidegate_runtime.prometheus import render
from tidegate_storage.stores.memory_store import MemoryObjectStore

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
OPERATIONS = DOCS / "operations"
PACKAGES = ("protocol", "storage", "coordination", "gateway", "lab", "compat-tests", "deploy")
GENERATE = ROOT / "gateway" / "generate_docs.py"
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
OF_CLIENTS = {
    "application.id",
    "auto.offset.reset",
    "bootstrap.servers",
    "client.id",
    "client.rack",
    "enable.metrics.push",
    "fetch.queue.backoff.ms",
    "group.protocol",
    "isolation.level",
    "linger.ms",
    "queued.max.messages.kbytes",
    "repartition.purge.interval.ms",
    "sasl.jaas.config",
    "sasl.mechanism",
    "sasl.oauthbearer.header.urlencode",
    "security.protocol",
    "ssl.truststore.location",
    "transaction.timeout.ms",
    "transactional.id",
}
FEATURES = {"tidegate.metadata.version", "transaction.version"}
UNITS = {"s": 1000, "GiB": 1 << 30}


def pages() -> list[Path]:
    """Return all pages of the repository, without those of installed packages."""
    found = sorted(ROOT.rglob("*.md"))
    hidden = [each for each in found if any(p[0] == "." for p in each.relative_to(ROOT).parts)]
    return [each for each in found if each not in hidden and "node_modules" not in each.parts]


def rows(page: Path, pattern: str) -> list[Any]:
    return re.findall(rf"^\| {pattern} \|", page.read_text(), re.MULTILINE)


def test_generated_tables_match_the_code() -> None:
    done = subprocess.run([sys.executable, GENERATE, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


async def test_the_apis_that_are_served_are_listed() -> None:
    found = rows(DOCS / "api-support.md", r"([A-Za-z]+) \| (\d+) \| (\d+ to \d+|\d+)")
    listed = {name: (int(key), span) for name, key, span in found}
    async with started_gateway() as gateway:
        served = [APIS[each.key] for each in gateway.rows]

    assert listed == {
        each.name: (each.key, versions(each.min_version, each.max_version)) for each in served
    }


def versions(first: int, last: int) -> str:
    return f"{first} to {last}" if first != last else str(first)


def test_the_settings_of_the_code_are_listed() -> None:
    text = (DOCS / "configuration.md").read_text()
    tables = (BROKER_CONFIGS, TOPIC_CONFIGS)
    assert [name for table in tables for name in table if f"`{name}`" not in text] == []


def test_the_commands_that_exist_are_listed() -> None:
    listed = rows(OPERATIONS / "cli.md", r"`tidegate ([a-z]+(?: [a-z][a-z-]*)*)[^`]*` \| .*")
    there = {*leaves(typer.main.get_command(app), "")}
    for name, value in plugged_in().items():
        plugin = EntryPoint(name, value, COMMANDS).load()
        there |= {*leaves(typer.main.get_command(plugin), name)}
    assert sorted(listed) == sorted(there)


def plugged_in() -> dict[str, str]:
    """Return the commands of our other packages, as if this tree were installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: dict[str, str] = project["entry-points"][COMMANDS]
    return found


def leaves(command: Any, words: str) -> Iterator[str]:
    """Return the commands below a command, or itself if it has none."""
    below = getattr(command, "commands", {})
    for name, each in below.items():
        yield from leaves(each, f"{words} {name}".strip())
    if not below:
        yield words


@pytest.mark.parametrize("page", [ROOT / "deploy" / "README.md", OPERATIONS / "upgrade.md"])
def test_an_upgrade_ends_at_the_newest_version(page: Path) -> None:
    ways = (r"tidegate\.metadata\.version=(\d+)", r"version (?:--log URL )?--raise (\d+)")
    for way in ways:
        found = re.findall(way, page.read_text())
        assert found == [str(NEWEST)], f"{page.name} does not name {NEWEST} after {way}"


def test_what_each_version_brings_is_listed() -> None:
    page = DOCS / "decisions" / "0018-metadata-version.md"
    assert [int(each) for each in rows(page, r"(\d+) \| [^|]+")] == sorted(LEVELS)


def test_the_page_lists_all_commands_of_dev_zones() -> None:
    listed = rows(OPERATIONS / "cli.md", r"`([a-z]+)(?: 2)?` \| .*")
    assert sorted(listed) == sorted(each.value for each in Verb)


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", DOCS / "pipeline.md", *sorted(OPERATIONS.glob("*.md"))],
    ids=lambda page: page.stem,
)
def test_settings_exist_and_have_these_defaults(page: Path) -> None:
    text = page.read_text()
    known = BROKER_CONFIGS.keys() | TOPIC_CONFIGS.keys() | OF_CLIENTS | FEATURES
    named = re.findall(r"`([a-z]+(?:\.[a-z]+)+)(?:=[^`]*)?`", text)
    named = [each for each in named if not each.endswith(".properties")]
    assert [each for each in named if not (each in known or static_definition(each))] == []
    for name, figure, unit in re.findall(r"`([a-z.]+)` \((\d+) (s|GiB)\b", text):
        assert float(str(BROKER_CONFIGS[name].default)) == int(figure) * UNITS[unit], name


async def test_metrics_of_a_gateway_are_listed() -> None:
    """test_deploy_readme.py checks the metrics that only some gateways have."""
    async with started_gateway() as gateway:
        served = names_of(await render(gateway_metrics(gateway)))
    here, not_here = parts_of(OPERATIONS / "metrics.md", "Names of Kafka that are not here")
    name = r"`((?:tidegate|kafka)_[a-z_]+)`"
    listed = re.findall(rf"^\| {name} \| .* \|$", here, re.MULTILINE)
    assert len(served) > 50
    assert [each for each in served if each not in listed] == []
    assert len(listed) == len(set(listed))
    # Each gateway serves all metrics with Kafka's names.  The tests of the deployment check the
    # others.
    of_kafka = [each for each in listed if each.startswith("kafka_")]
    assert [each for each in of_kafka if each not in served] == []
    refused = re.findall(rf"^\| {name}", not_here, re.MULTILINE)
    assert len(refused) > 3
    assert [each for each in refused if each in served] == []


def parts_of(page: Path, heading: str) -> tuple[str, str]:
    """Return a page without one of its sections, and the section."""
    before, _, rest = page.read_text().partition(f"\n## {heading}\n")
    section, _, after = rest.partition("\n## ")
    assert section
    return f"{before}\n## {after}", section


async def test_metrics_of_the_pipeline_are_listed() -> None:
    coordinator = Coordinator(MemoryLog(), ClusterState(), rng=Random(1), wall_clock=lambda: 0.0)
    attempts = count(1)
    runner = LocalRunner(MemoryObjectStore(), next_attempt=lambda: next(attempts))
    driver = Driver(coordinator, runner, MergeSettings(), rng=Random(1), software_version="1")
    served = names_of(await render(driver_metrics(driver)))
    assert sorted(served) == sorted(rows(DOCS / "pipeline.md", r"`(tidegate_[a-z_]+)` \| .*"))


def names_of(text: bytes) -> list[str]:
    found = re.findall(r"^# TYPE (\S+) ", text.decode(), re.MULTILINE)
    return [each for each in found if each.startswith(("tidegate_", "kafka_"))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", page.read_text())):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        place, _, anchor = target.partition("#")
        linked = page.parent / place if place else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def test_pointers_to_the_architecture_name_its_headings() -> None:
    """Pointers in code, decisions and pages have the form: docs/architecture.md, "X" (and "Y")."""
    headings = set(re.findall(r"^#+ (.*)$", (DOCS / "architecture.md").read_text(), re.MULTILINE))
    pointers = [(each, name) for each in [*pages(), *modules()] for name in pointed_at(each)]
    assert len(pointers) > 20
    assert [(str(each), name) for each, name in pointers if name not in headings] == []


def modules() -> list[Path]:
    """Return all Python files of the repository but this one, without installed packages."""
    found = sorted(each for top in PACKAGES for each in (ROOT / top).rglob("*.py"))
    return [each for each in found if ".work" not in each.parts and each != Path(__file__)]


def pointed_at(file: Path) -> list[str]:
    """Return the headings that a file points to.

    A pointer may continue on the next line, also in a comment.
    """
    text = re.sub(r"\s+(?:# ?)?", " ", file.read_text())
    named = re.findall(r'docs/architecture\.md, ("[^"]+"(?:(?:,| and|, and) "[^"]+")*)', text)
    return [name for names in named for name in re.findall(r'"([^"]+)"', names)]


def anchors(page: Path) -> set[str]:
    """Return the headings of a page in the form of link anchors."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def test_places_exist() -> None:
    found = rows(DOCS / "rooms.md", r"(`[^|]*)")
    places = re.findall(r"`([^`]+)`", " ".join(each.partition(" |")[0] for each in found))
    assert len(places) > 10
    assert [each for each in places if not (ROOT / each).is_dir()] == []


def test_the_front_page_is_short_and_narrow() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= 100


def test_the_index_has_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    linked = {(DOCS / each).resolve() for each in re.findall(r"\]\(([^)#]+)", index)}
    there = {*DOCS.glob("*.md"), *OPERATIONS.glob("*.md")} - {DOCS / "README.md"}
    assert len(there) > 25
    assert there - linked == set()


def test_the_benchmarks_of_the_front_page_are_rows_of_the_performance_page() -> None:
    figures = rows(ROOT / "README.md", r"(.*?) \| ([\d.]+) ms(?:/MB)? \| ([\d.]+) ms(?:/MB)?")
    measured = (DOCS / "performance.md").read_text().splitlines()
    assert len(figures) > 3
    for case, ours, of_kafka in figures:
        both = rf"^\|.*\| {re.escape(ours)}\b.*\| {re.escape(of_kafka)}\b"
        assert any(re.match(both, line) for line in measured), case


def test_the_steps_of_the_check_are_listed() -> None:
    script = (ROOT / "check").read_text()
    plain = re.findall(r"^steps=\"(.*)\"$", script, re.MULTILINE)[0].split()
    every = re.findall(r"^        ([a-z]+)\)", script, re.MULTILINE)
    fast = re.findall(r"fast\) shift; set -- (.*) \"\$@\" ;;", script)[0].split()
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    told = re.search(r"commits, runs (.*?)\.\n", contributing, re.DOTALL)
    in_short = (ROOT / "README.md").read_text().partition("## Develop\n")[2].partition("commits")[0]
    assert rows(ROOT / "CONTRIBUTING.md", r"`([a-z]+)` \| .*") == every
    assert told is not None
    assert re.findall(r"`([a-z]+)`", told[1]) == fast
    assert re.findall(r"`([a-z]+)`", in_short) == plain


def test_the_planted_bug_of_the_page_is_one_of_the_tests() -> None:
    page = (DOCS / "simulator.md").read_text()
    (planted,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (place,) = re.findall(r"`(lab/tests/bugs/\S+\.py)`", page)
    assert planted in (ROOT / place).read_text()
