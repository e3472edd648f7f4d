"""Prices, and the money of sums.  Pure but for reading a file of prices.

Money is in the currency of the prices.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec

from tidegate_runtime.settings_texts import SettingsError
from tidegate_storage.objects.cost_sums import PARTS, CostSums, Use

PRICES: Final = "2026-11.toml"
MONTH_HOURS: Final = 730
GB: Final = 10**9
_THOUSAND: Final = 1000


class RequestPrices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The prices of 1,000 requests."""

    put: float
    list: float
    get: float
    delete: float = 0.0


class GigabytePrices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """month: the price of a GB stored for a month.  crossed: the price of a GB between zones."""

    month: float
    crossed: float


class MachinePrices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """core_month: the price of a core for a month."""

    core_month: float = 0.0


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices; see prices/*.toml.  date, region: of the price list, for people."""

    region: str
    date: str
    requests: RequestPrices
    gigabytes: GigabytePrices
    machines: MachinePrices = MachinePrices()

    def of_requests(self, requests: Mapping[str, int]) -> float:
        """Return the money of requests by kind and purpose (see CostSums)."""
        of_kind: dict[str, float] = msgspec.structs.asdict(self.requests)
        return sum(
            count * of_kind[name.partition(" ")[0]] / _THOUSAND for name, count in requests.items()
        )

    def of_use(self, use: Use, kept_byte_hours: int = 0) -> float:
        """Return the money for the requests, traffic and stored bytes of a topic or a client."""
        puts, gets = use.puts / PARTS, use.gets / PARTS
        asked = (puts * self.requests.put + gets * self.requests.get) / _THOUSAND
        return asked + self.of_crossed(use.crossed_bytes) + self.of_kept(kept_byte_hours)

    def of_crossed(self, size_bytes: int) -> float:
        """Return the money of bytes between zones."""
        return size_bytes / GB * self.gigabytes.crossed

    def of_kept(self, byte_hours: float) -> float:
        """Return the money of stored bytes, in byte-hours."""
        return byte_hours / MONTH_HOURS / GB * self.gigabytes.month


def money_of(sums: CostSums, prices: Prices) -> dict[str, float]:
    """Return the money by cause; the sum of the values is the bill of the interval."""
    kinds = ("put", "get", "list", "delete")
    money = {
        f"{kind} requests": prices.of_requests(
            {name: count for name, count in sums.requests.items() if name.startswith(f"{kind} ")}
        )
        for kind in kinds
    }
    money["storage"] = prices.of_kept(sum(sums.kept_byte_hours.values()))
    money["bytes across zones"] = prices.of_crossed(sums.crossed_bytes)
    return money


def packaged_prices() -> Prices:
    """Return the prices that come with this release."""
    text = (files("tidegate_gateway.cost") / "prices" / PRICES).read_text()
    return prices_from(text, PRICES)


def prices_of(path: Path | None) -> Prices:
    """Return the operator's prices, or the prices of this release if there is no file.

    Raises:
      SettingsError: the file cannot be read, or has wrong content.
    """
    if path is None:
        return packaged_prices()
    try:
        return prices_from(path.read_text(), str(path))
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"--prices: {error}") from None


def prices_from(text: str, name: str) -> Prices:
    """Read prices from TOML.

    Raises:
      SettingsError: names the wrong value.
    """
    try:
        read: dict[str, Any] = tomllib.loads(text)
        found = msgspec.convert(read, Prices)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise SettingsError(
            f"--prices {name}: {error}; write it like prices/{PRICES} in docs/operations/cost.md"
        ) from None
    groups = (found.requests, found.gigabytes, found.machines)
    numbers = [each for group in groups for each in msgspec.structs.astuple(group)]
    if any(not 0 <= each < float("inf") for each in numbers):
        raise SettingsError(f"--prices {name}: a price is 0 or more")
    return found
