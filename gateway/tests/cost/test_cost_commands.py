"""`tidegate cost`, `tidegate plan` and /v1/cost show the sums, in 80 columns."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock
from typer.testing import CliRunner, Result

from tests.worlds.app_world import pages_of, starting_pages
from tests.worlds.wire_client import records_batch, wire_world
from tidegate_gateway.cli.command import app
from tidegate_gateway.cli.cost import COLUMNS
from tidegate_storage.objects.cost_sums import PARTS, PIPELINE, CostSums, Use, encode
from tidegate_storage.objects.keys import cost_key, timeline_key
from tidegate_storage.objects.ownership import claim_prefix
from tidegate_storage.stores.load import open_store

HOUR_MS = 3_600_000


def ran(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def sums(node_id: int, end_ms: int, **more: object) -> CostSums:
    found = CostSums(
        node_id=node_id,
        linger_ms=250,
        put_budget=8.0,
        begin_ms=end_ms - HOUR_MS,
        end_ms=end_ms,
        requests={"put wal": 28_800, "get segments": 1000, "list wal": 3, "delete wal": 1},
        stored_bytes={"wal": 288 * 10**6},
        got_bytes={"segments": 8 * 10**9},
        batches=28_800,
        topics={
            "orders": Use(puts=20_000 * PARTS, put_bytes=200 * 10**6),
            "x" * 200: Use(puts=8_800 * PARTS, put_bytes=88 * 10**6),
            "\x1b[31m": Use(gets=1000 * PARTS, get_bytes=8 * 10**9),
        },
        clients={
            "": Use(puts=28_800 * PARTS, put_bytes=288 * 10**6, crossed_bytes=4 * 10**9),
            "r": Use(gets=1000 * PARTS, get_bytes=8 * 10**9),
        },
        groups={"r": ["readers"]},
    )
    for name, value in more.items():
        setattr(found, name, value)
    return found


def of_pipeline(end_ms: int) -> CostSums:
    return CostSums(
        node_id=PIPELINE,
        begin_ms=end_ms - HOUR_MS,
        end_ms=end_ms,
        requests={"put segments": 10_000, "get wal": 5_000},
        stored_bytes={"segments": 4 * 10**9},
        got_bytes={"wal": 5 * 10**9},
    )


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of a store with sums of two gateways and of a pipeline.

    Some sums are of an older timeline, and some are old.
    """
    (tmp_path / "objects").mkdir()
    url = f"file:{tmp_path}/objects"
    now_ms = round(time.time() * 1000)
    kept = {"orders": 5 * 10**9}
    all_sums = [
        (1, sums(1, now_ms - 2 * HOUR_MS)),
        (2, sums(1, now_ms - HOUR_MS // 2, kept_bytes=kept, kept_byte_hours=kept)),
        (2, sums(2, now_ms)),
        (1, sums(7, now_ms - 40 * 24 * HOUR_MS)),
        (2, of_pipeline(now_ms)),
    ]

    async def write() -> None:
        store = open_store(url)
        await claim_prefix(store, "c", timeline=1, created_by="test")
        await store.put(timeline_key(2), b"{}")
        for number, (timeline, each) in enumerate(all_sums):
            hour = int(time.strftime("%Y%m%d%H", time.gmtime(each.end_ms / 1000)))
            key = cost_key("c", timeline, hour, max(each.node_id, 0), 1, number)
            await store.put(key, encode(each))
        await store.aclose()

    trio.run(write)
    return url


def test_the_report_has_both_gateways_and_fits_a_terminal(url: str) -> None:
    done = ran("cost", "--object-store", url)

    lines = done.stdout.splitlines()
    assert done.exit_code == 0, done.stderr
    assert max(map(len, lines)) <= COLUMNS
    assert "2 gateways; prices of AWS us-east-1, S3 Standard, 2026-11" in " ".join(lines[:2])
    assert _row(lines, "put requests") == ["96,400", "4.9", "GB", "$0.48"]
    assert _row(lines, "of these the pipeline") == ["15,000", "9.0", "GB", "$0.05"]
    assert _row(lines, "storage")[:2] == ["5.0", "GB"]
    assert _row(lines, "bytes across zones") == ["12.0", "GB", "$0.24"]
    assert _row(lines, "orders")[:4] == ["60,000", "600.0", "MB", "0"]
    assert " ".join(_row(lines, r"\x1b[31m")) == "0 0 B 3,000 24.0 GB 0 B $0.00"
    assert any(line.startswith("xxxx") and "… " in line for line in lines)
    assert "wal.put.budget.per.second=4 instead of 8" in done.stdout
    assert "most cross: (no client.id)" in done.stdout.replace("\n", " ")


def _row(lines: list[str], name: str) -> list[str]:
    [line] = [each for each in lines if each.startswith(f"{name} ")]
    return line.removeprefix(name).split()


@pytest.mark.parametrize(("by", "name"), [("client", "r"), ("group", "readers")])
def test_tables_by_reader(url: str, by: str, name: str) -> None:
    done = ran("cost", "--object-store", url, "--by", by)
    assert _row(done.stdout.splitlines(), name) == [
        "0",
        "0",
        "B",
        "3,000",
        "24.0",
        "GB",
        "0",
        "B",
        "$0.00",
    ]


def test_json_has_all_rows_and_their_money_adds_up(url: str) -> None:
    report = json.loads(ran("cost", "--object-store", url, "--json").stdout)
    assert report["node_ids"] == [1, 2]
    assert report["intervals"] == 4
    assert report["pipeline"]["requests"] == {"put segments": 10_000, "get wal": 5_000}
    assert report["pipeline"]["money"] == pytest.approx(0.052)
    assert report["requests"]["put wal"] == 86_400
    assert sum(each["puts"] for each in report["topics"]) == 86_400
    assert sum(each["puts"] for each in report["clients"]) == 86_400
    split = sum(each["money"] for each in report["topics"])
    causes = report["money"]
    assert split == pytest.approx(
        causes["put requests"]
        + causes["get requests"]
        + causes["storage"]
        - report["pipeline"]["money"]
    )
    assert causes["total"] == pytest.approx(sum(causes.values()) - causes["total"])


def test_a_shorter_span_has_less(url: str) -> None:
    report = json.loads(ran("cost", "--object-store", url, "--json", "--since", "1h").stdout)
    assert report["intervals"] == 3
    everything = ran("cost", "--object-store", url, "--json", "--since", "9w")
    assert json.loads(everything.stdout)["intervals"] == 5


def test_no_sums_and_no_cluster_are_said(tmp_path: Path) -> None:
    (tmp_path / "objects").mkdir()
    done = ran("cost", "--data", str(tmp_path))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "no cluster keeps its records there" in done.stderr

    async def claim() -> None:
        store = open_store(f"file:{tmp_path}/objects")
        await claim_prefix(store, "c", timeline=1, created_by="test")
        await store.aclose()

    trio.run(claim)
    shown = ran("cost", "--data", str(tmp_path)).stdout
    assert shown.startswith("No gateway wrote")
    assert "/v1/cost" in shown


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--since", "7"), "--since 7: write a number and h, d or w, such as 7d"),
        (("--by", "user"), "--by user: write topic, client, group"),
        (("--prices", "/nowhere.toml"), "--prices: "),
    ],
)
def test_what_was_typed_wrongly_is_said(arguments: tuple[str, ...], why: str) -> None:
    done = ran("cost", *arguments)
    assert done.exit_code == 2
    assert why in done.stderr


async def test_the_page_has_the_gateways_own_sums(autojump_clock: MockClock) -> None:
    async with wire_world({"cost.interval.ms": "600000"}) as world:
        await world.create_topic("t", 1)
        for seconds in (700, 0):
            client = world.connect()
            client.client_id = "w"
            await client.produce("t", 0, records_batch(b"v"))
            await trio.sleep(seconds)
        answer = await pages_of(world.gateway).answer("GET", "/v1/cost")
    report = json.loads(answer.body)
    # One put of the last interval, and one of this interval.
    assert report["requests"]["put wal"] == 2
    assert [(each["name"], each["puts"]) for each in report["clients"]] == [("w", 2.0)]
    [topic] = report["topics"]
    assert topic["kept_bytes"] == report["kept_bytes"] > 0
    assert report["money"]["total"] > 0
    assert (await starting_pages().answer("GET", "/v1/cost")).status == 503


def test_a_plan_fits_a_terminal(tmp_path: Path) -> None:
    done = ran("plan", "--write", "100000", "--read", "100000", "--partitions", "1000")
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= COLUMNS
    assert "Clients that do not name their zone" in done.stdout
    alone = ran("plan", "--write", "1", "--read", "0", "--zones", "1", "--batches", "java")
    assert "1 of a core each in 1 zone;" in alone.stdout
    assert "cross zones" not in alone.stdout


def test_a_plan_as_json_has_its_load() -> None:
    made = json.loads(ran("plan", "--write", "100", "--read", "300", "--json").stdout)
    assert made["load"]["batches"] == "16KiB"
    assert made["busy_cores"] == pytest.approx(0.852)
    refused = ran("plan", "--write", "-1", "--read", "300")
    assert refused.exit_code == 2
    wrong = ran("plan", "--write", "1", "--read", "1", "--prices", "/nowhere.toml")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
