"""Advice on settings that would save money, one sentence for each setting.  Pure.

A sentence is left out if it saves less than a minimum a month.  The figures are summed over all
given gateways, which are taken to have the same settings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidegate_storage.objects.cost_sums import OTHERS, CostSums

from .bill import GB, MONTH_HOURS, Prices
from .figures import BATCHES_OF_1_MB

LEAST_MONEY: Final = 5.0
"""Dollars a month; advice that saves less is not given."""
LEAST_SECONDS: Final = 300.0
"""The shortest time of measured figures: a shorter one says little about a month."""
EFFICIENT_BYTES: Final = 7 << 20
"""An object of this size costs no token of the budget: see produce/wal_writer.py."""
LONGER_LINGER_MS: Final = 1000
SMALL_BATCH_BYTES: Final = 128 << 10
_GIB: Final = 1 << 30
_SHOWN_CLIENTS: Final = 3


@dataclass(frozen=True, slots=True)
class _Rates:
    """The gateways' writes a second: PUTs of WAL objects, their bytes, and their batches.

    linger_ms, budget: see CostSums.  gateways: their number.
    """

    puts: float
    bytes: float
    batches: float
    linger_ms: int
    budget: float
    gateways: int

    @property
    def least_puts(self) -> float:
        """The PUTs a second if all objects had the efficient size."""
        return self.bytes / EFFICIENT_BYTES

    def money(self, puts: float, prices: Prices) -> float:
        """The money that a lower rate of PUTs saves in a month."""
        saved = (self.puts - max(puts, self.least_puts)) * MONTH_HOURS * 3600
        return saved * prices.requests.put / 1000


def advice(
    recent: Sequence[CostSums], prices: Prices, least_money: float = LEAST_MONEY
) -> list[str]:
    """Return the sentences, the largest saving first; each assumes that nothing else changes.

    recent: the last sums of each gateway.
    """
    sums = [each for each in recent if _seconds(each) >= LEAST_SECONDS]
    if not sums:
        return []
    rate = _Rates(
        sum(each.requests.get("put wal", 0) / _seconds(each) for each in sums),
        sum(each.stored_bytes.get("wal", 0) / _seconds(each) for each in sums),
        sum(each.batches / _seconds(each) for each in sums),
        min(each.linger_ms for each in sums),
        max(each.put_budget for each in sums),
        len(sums),
    )
    found = [
        *_of_linger(rate, prices),
        *_of_budget(rate, prices),
        *_of_batches(rate, prices),
        *_of_zones(sums, prices),
    ]
    found.sort(key=lambda each: -each[0])
    return [text for money, text in found if money >= least_money]


def _seconds(sums: CostSums) -> float:
    return (sums.end_ms - sums.begin_ms) / 1000


def _of_linger(rate: _Rates, prices: Prices) -> list[tuple[float, str]]:
    """Advise a longer linger if objects reach the efficient size only with it."""
    a_gateway = rate.bytes / rate.gateways
    filled = a_gateway * LONGER_LINGER_MS / 1000
    if not a_gateway * rate.linger_ms / 1000 < EFFICIENT_BYTES <= filled:
        return []
    puts = rate.least_puts
    money = rate.money(puts, prices)
    wait = EFFICIENT_BYTES / a_gateway
    return [
        (
            money,
            f"wal.linger.ms={LONGER_LINGER_MS} instead of {rate.linger_ms} would fill WAL objects:"
            f" {puts:.1f} a second instead of {rate.puts:.1f}, ${money:,.0f} less a month, for"
            f" acknowledgements that take up to {wait:.1f} s longer.",
        )
    ]


def _of_budget(rate: _Rates, prices: Prices) -> list[tuple[float, str]]:
    """Advise a smaller PUT budget.  Only small objects use it, and wait for at most linger."""
    if not rate.budget:
        return []
    wanted = max(rate.budget / 2, 1000 / max(rate.linger_ms, 1))
    puts = rate.gateways * wanted + rate.least_puts
    if wanted >= rate.budget or puts >= rate.puts:
        return []
    money = rate.money(puts, prices)
    return [
        (
            money,
            f"wal.put.budget.per.second={wanted:g} instead of {rate.budget:g} would store"
            f" {puts:.1f} WAL objects a second instead of {rate.puts:.1f}: ${money:,.0f} less a"
            f" month, for small batches that wait up to {1 / wanted:.2g} s.",
        )
    ]


def _of_batches(rate: _Rates, prices: Prices) -> list[tuple[float, str]]:
    if not rate.batches or rate.bytes / rate.batches >= SMALL_BATCH_BYTES:
        return []
    puts = rate.bytes / _GIB * BATCHES_OF_1_MB.puts_per_gib
    money = rate.money(puts, prices)
    mean = rate.bytes / rate.batches / 1024
    return [
        (
            money,
            f"Producers send batches of {mean:.0f} KiB on average: with 1 MB (batch.size=1000000,"
            f" linger.ms=50) the bench stores {BATCHES_OF_1_MB.puts_per_gib} objects a GiB, here"
            f" {rate.puts * _GIB / rate.bytes:,.0f}: ${money:,.0f} less a month.",
        )
    ]


def _of_zones(sums: Sequence[CostSums], prices: Prices) -> list[tuple[float, str]]:
    rates: Counter[str] = Counter()
    for each in sums:
        for name, use in each.clients.items():
            rates[name] += round(use.crossed_bytes / _seconds(each))
    a_month = rates.total() * 3600 * MONTH_HOURS
    money = prices.of_crossed(a_month)
    names = [name or "(no client.id)" for name, rate in rates.most_common() if rate]
    named = [name for name in names if name != OTHERS]
    shown = ", ".join(named[:_SHOWN_CLIENTS])
    more = f" and {len(named) - _SHOWN_CLIENTS} more" if len(named) > _SHOWN_CLIENTS else ""
    return [
        (
            money,
            f"Clients in their gateways' zones would save {a_month / GB:,.0f} GB across zones,"
            f" ${money:,.0f} a month; most cross: {shown}{more}. `tidegate zones` says how.",
        )
    ]
