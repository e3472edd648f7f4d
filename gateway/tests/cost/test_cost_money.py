"""Prices, bills, advice and plans."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidegate_gateway.cost import advice as advice_module
from tidegate_gateway.cost.bill import money_of, packaged_prices, prices_from, prices_of
from tidegate_gateway.cost.figures import (
    BATCHES_OF_16_KIB,
    INGEST,
    INGEST_MEASURED,
    MERGE,
    MERGE_MEASURED,
    TAIL_READERS,
    Batches,
)
from tidegate_gateway.cost.plan import BUDGET, Load, ingest_of, plan
from tidegate_runtime.settings_texts import SettingsError
from tidegate_storage.objects.cost_sums import PARTS, CostSums, Use

PAGE = (Path(__file__).parents[3] / "docs" / "performance.md").read_text()
PRICES = packaged_prices()
HOUR_MS = 3_600_000


def an_hour(**more: object) -> CostSums:
    sums = CostSums(begin_ms=0, end_ms=HOUR_MS, linger_ms=250, put_budget=8)
    for name, value in more.items():
        setattr(sums, name, value)
    return sums


def advice(sums: CostSums) -> list[str]:
    return advice_module.advice([sums], PRICES)


def cells(row: str) -> list[str]:
    [line] = re.findall(rf"^\| {re.escape(row)} \|(.*)\|$", PAGE, re.MULTILINE)
    return [each.strip() for each in line.split("|")]


def number(text: str) -> float:
    return float(text.split()[0].replace(",", ""))


def test_the_figures_are_those_of_the_page() -> None:
    for ingest in INGEST:
        found = cells(ingest.row)
        assert number(found[0]) == ingest.cpu_ms_per_mb
        assert number(found[-1]) == ingest.puts_per_gib
    assert number(cells(TAIL_READERS.row)[0]) == TAIL_READERS.cpu_ms_per_mb
    merged = cells(MERGE.row)
    assert number(merged[0]) == MERGE.mib_per_core_second
    assert merged[2] == f"{MERGE.gets_per_gib:,}, {MERGE.puts_per_gib}"
    assert f"Measured {INGEST_MEASURED}" in PAGE
    assert f"of {MERGE_MEASURED}" in PAGE


def test_the_bill_is_the_sum_of_its_causes() -> None:
    sums = CostSums(
        requests={"put wal": 900_000, "put backup": 100_000, "get wal": 10_000, "delete wal": 9},
        clients={"x": Use(crossed_bytes=5 * 10**9)},
        kept_byte_hours={"t": 730 * 10**9},
    )
    assert money_of(sums, PRICES) == pytest.approx(
        {
            "put requests": 5.0,
            "get requests": 0.004,
            "list requests": 0.0,
            "delete requests": 0.0,
            "storage": 0.023,
            "bytes across zones": 0.1,
        }
    )
    use = Use(puts=1000 * PARTS, gets=1000 * PARTS, crossed_bytes=10**9)
    assert PRICES.of_use(use, 730 * 10**9) == pytest.approx(0.005 + 0.0004 + 0.02 + 0.023)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "missing required field"),
        ("region=", "Invalid"),
        ("region = 1", "Expected `str`"),
        (
            'region="r"\ndate="d"\nrequests={put=-1,list=0,get=0}\ngigabytes={month=0,crossed=0}',
            "0 or",
        ),
        (
            'region="r"\ndate="d"\nrequests={put=1,lst=0,get=0}\ngigabytes={month=0,crossed=0}',
            "lst",
        ),
    ],
)
def test_wrong_prices_are_refused_with_their_file(text: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why) as refused:
        prices_from(text, "my.toml")
    assert str(refused.value).startswith("--prices my.toml: ")


def test_an_operators_prices_stand_for_the_packages(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        'region="here"\ndate="2027-01"\n[requests]\nput=1\nlist=1\nget=1\n'
        "[gigabytes]\nmonth=0.5\ncrossed=0"
    )
    assert prices_of(mine).gigabytes.month == 0.5
    assert prices_of(None) == PRICES
    with pytest.raises(SettingsError, match="--prices"):
        prices_of(tmp_path / "absent.toml")


def of_writes(puts: int, size_bytes: int, batches: int) -> CostSums:
    return an_hour(
        requests={"put wal": puts}, stored_bytes={"wal": puts * size_bytes}, batches=batches
    )


def test_a_gateway_that_fills_no_object_is_advised_to_linger() -> None:
    # 8 objects a second of 1 MiB are 8 MiB/s, which fill an efficient object in less than a second.
    said = advice(of_writes(8 * 3600, 1 << 20, 1))
    assert said[0] == (
        "wal.linger.ms=1000 instead of 250 would fill WAL objects: 1.1 a second instead of 8.0,"
        " $90 less a month, for acknowledgements that take up to 0.9 s longer."
    )


def test_a_gateway_at_its_budget_is_advised_to_lower_it() -> None:
    [said] = advice(of_writes(8 * 3600, 10_000, 1))
    assert said == (
        "wal.put.budget.per.second=4 instead of 8 would store 4.0 WAL objects a second instead of"
        " 8.0: $52 less a month, for small batches that wait up to 0.25 s."
    )


def test_producers_of_small_batches_are_advised_to_send_larger_ones() -> None:
    said = advice(of_writes(8 * 3600, 1 << 20, 8 * 3600 * 64))
    assert said[1] == (
        "Producers send batches of 16 KiB on average: with 1 MB (batch.size=1000000, linger.ms=50)"
        " the bench stores 146 objects a GiB, here 1,024: $90 less a month."
    )


def test_clients_that_cross_zones_are_named_with_their_money() -> None:
    clients = {f"c{number}": Use(crossed_bytes=number * 10**9) for number in range(6)}
    [said] = advice(an_hour(clients=clients))
    assert said == (
        "Clients in their gateways' zones would save 10,950 GB across zones, $219 a month; most"
        " cross: c5, c4, c3 and 2 more. `tidegate zones` says how."
    )


@pytest.mark.parametrize(
    "sums",
    [
        an_hour(),
        of_writes(36, 10_000, 36),  # few objects: one in 100 s
        of_writes(8 * 3600, 7 << 20, 8 * 3600),  # large objects, of large batches
        an_hour(clients={"x": Use(crossed_bytes=10**8)}),  # crossing costs only a dollar a month
        CostSums(end_ms=60_000, requests={"put wal": 480}, stored_bytes={"wal": 480}),
    ],
)
def test_no_advice_where_there_is_nothing_to_save(sums: CostSums) -> None:
    assert advice(sums) == []


def test_no_budget_is_not_lowered_and_a_long_linger_not_raised() -> None:
    sums = of_writes(8 * 3600, 1 << 20, 1)
    sums.linger_ms, sums.put_budget = 1000, 0
    assert advice(sums) == []


def test_gateways_add_up_whose_hours_end_at_different_times() -> None:
    one, other = of_writes(8 * 3600, 10_000, 1), of_writes(8 * 1800, 10_000, 1)
    other.begin_ms, other.end_ms = HOUR_MS, HOUR_MS + HOUR_MS // 2
    [said] = advice_module.advice([one, other], PRICES)
    assert "would store 8.0 WAL objects a second instead of 16.0: $105 less a month" in said


@pytest.mark.parametrize(
    ("row", "batches", "partitions", "mb"),
    [
        ("1 MB, 16", Batches.LARGE, 16, 120),
        ("1 MB, 1", Batches.LARGE, 1, 154),
        ("1 MB, 1,000", Batches.LARGE, 1000, 118),
        ("16 KiB, 16", Batches.MIDDLE, 16, 109),
        ("16 KiB, 1,000", Batches.MIDDLE, 1000, 101),
        ("Java defaults", Batches.JAVA, 16, 29),
    ],
)
def test_a_plan_of_what_the_bench_did_is_within_a_quarter_of_it(
    row: str, batches: Batches, partitions: int, mb: float
) -> None:
    made = plan(Load(mb, 0, partitions, 1, zones=1, batches=batches), PRICES)

    found = cells(row)
    gib = mb * 10**6 / (1 << 30)
    puts = made.puts - gib * MERGE.puts_per_gib
    assert made.busy_cores == pytest.approx(mb * number(found[0]) / 1000, rel=0.25)
    assert puts == pytest.approx(gib * number(found[-1]), rel=0.25)


def test_a_plan_adds_up() -> None:
    load = Load(write_mb=100, read_mb=300, partitions=16, retention_days=7)
    made = plan(load, PRICES)
    assert made.busy_cores == pytest.approx(0.231 + 0.621)
    # If one of three zones is lost, two gateways carry 0.85 cores, at 0.6 each.
    assert made.gateways == 3
    assert made.stored_gb == pytest.approx(60_480)
    assert made.money["storage"] == pytest.approx(60_480 * 0.023)
    assert made.puts == pytest.approx(BUDGET * 3 + 100e6 / (1 << 30) * 54)
    assert made.money["cores"] == 4 * 31.0
    assert made.crossing == pytest.approx(400e6 * 2 / 3 * 730 * 3600 / 1e9 * 0.02)
    idle = plan(Load(0, 0, 1, 1), PRICES)
    assert (idle.puts, idle.gets, idle.gateways) == (0, 0, 3)


def test_figures_between_those_of_the_bench() -> None:
    assert ingest_of(Batches.MIDDLE, 1).cpu_ms_per_mb == BATCHES_OF_16_KIB.cpu_ms_per_mb
    assert 2.31 < ingest_of(Batches.MIDDLE, 126).cpu_ms_per_mb < 3.30
    assert ingest_of(Batches.MIDDLE, 10**6).cpu_ms_per_mb == 3.30
