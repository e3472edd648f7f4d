"""Queries of the dashboards' panels.

MINE selects the gateways of a dashboard's variable `job`, and WINDOW is Grafana's window for rates.
Only one gateway at a time shows the facts of the cluster, and this gateway changes.  So queries
take the maximum over all gateways.
"""

from __future__ import annotations

from typing import Final

MINE: Final = 'job=~"$job"'
WINDOW: Final = "$__rate_interval"
OF_TOPIC: Final = f'{MINE}, topic=~"$topic"'
OF_GROUP: Final = f'{MINE}, consumergroup=~"$consumergroup"'


def rate(metric: str, by: str = "instance", labels: str = MINE) -> str:
    """Return the rate of a counter, summed."""
    return f"sum by ({by}) (rate({metric}{{{labels}}}[{WINDOW}]))"


def quantile(share: float, histogram: str) -> str:
    """Return a quantile over all gateways."""
    return f"histogram_quantile({share}, {rate(f'{histogram}_bucket', 'le')})"


def mean(histogram: str) -> str:
    """Return the mean of a histogram over all gateways."""
    return f"{total(f'{histogram}_sum')} / {total(f'{histogram}_count')}"


def total(metric: str) -> str:
    """Return the rate of a counter, summed over all gateways."""
    return f"sum(rate({metric}{{{MINE}}}[{WINDOW}]))"


def quantiles(histogram: str) -> dict[str, str]:
    """Return the queries of a histogram's panel."""
    return {f"p{each * 100:g}": quantile(each, histogram) for each in (0.5, 0.99, 0.999)}


def mine(metric: str) -> str:
    """Return the values of each gateway."""
    return f"{metric}{{{MINE}}}"


def most(metric: str) -> str:
    """Return the highest value of a gateway."""
    return f"max({mine(metric)})"


def summed(metric: str, by: str = "") -> str:
    """Return the sum of all gateways.  by: labels that are kept."""
    return f"sum{f' by ({by}) ' if by else ''}({mine(metric)})"


def of_cluster(metric: str, by: str, labels: str) -> str:
    """Return a fact of the cluster, whichever gateway shows it."""
    return f"max by ({by}) ({metric}{{{labels}}})"
