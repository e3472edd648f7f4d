"""The changes between two frames, as builtins.  Pure.

A rate is None if it is unknown: the gateway is in only one of the frames, or was restarted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ...cost.bill import MONTH_HOURS, Prices
from .frames import PARTITIONS, Frame, Pages
from .samples import Samples

Row: TypeAlias = dict[str, Any]
MB: Final = 10**6
HOUR_SECONDS: Final = 3600
KINDS: Final = ("put", "get", "list", "delete")
_FETCH_CONSUMER: Final = "FetchConsumer"
_TOPICS: Final = "kafka_server_brokertopicmetrics_{}_total"
_BY_TOPIC: Final = (
    ("in_bytes_per_second", _TOPICS.format("bytesin")),
    ("out_bytes_per_second", _TOPICS.format("bytesout")),
    ("records_per_second", _TOPICS.format("messagesin")),
)


def decide(before: Frame, now: Frame, prices: Prices) -> Row:
    """Return the row that `tidegate top` shows for a frame."""
    earlier = {each.admin: each for each in before.gateways if not each.problem}
    pairs = [(earlier.get(each.admin), each) for each in now.gateways if not each.problem]
    clusters = sorted({str(p.status.get("cluster_id", "")) for _, p in pairs} - {""})
    return {
        "time_ms": now.time_ms,
        "clusters": clusters,
        "asked": len(now.gateways),
        "answered": len(pairs),
        "problems": [{"admin": p.admin, "why": p.problem} for p in now.gateways if p.problem],
        "gateways": [*_gateways(pairs), *_others(now.gateways)],
        "topics": _topics(pairs, now.cluster),
        "groups": _groups(now.cluster),
        "store": _store(pairs, prices),
    }


# -- gateways --------------------------------------------------------------------------------------


def _gateways(pairs: Iterable[tuple[Pages | None, Pages]]) -> Iterator[Row]:
    for before, now in sorted(pairs, key=lambda pair: int(pair[1].status["node_id"])):
        seconds = _seconds(before, now)
        row = _row(now.admin, now.status, now.status["state"])
        for name, family in _BY_TOPIC[:2]:
            row[name] = _rate(_whole(before, family), _whole(now, family), seconds)
        row["requests_per_second"] = _rate(_requests(before), _requests(now), seconds)
        row["produce_p99_ms"] = _produce_p99_ms(now.samples)
        idle = _whole(now, "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent")
        row["loop_busy"] = None if idle is None else min(max(1 - idle, 0.0), 1.0)
        row["connections"] = now.status["connections"]
        yield row


def _others(gateways: Sequence[Pages]) -> Iterator[Row]:
    """Yield the gateways that did not answer, then those of the cluster that were not asked."""
    silent = [each for each in gateways if each.problem]
    for each in silent:
        yield _row(each.admin, each.status, "no answer")
    if not all(each.status for each in silent):
        return  # a silent gateway without a known node id may be any of the gateways below
    asked = {each.status["node_id"] for each in gateways}
    answers = [each.status for each in gateways if not each.problem]
    known = {one["node_id"]: one for each in answers for one in each.get("gateways", ())}
    for node_id in sorted(known.keys() - asked):
        yield _row("", known[node_id], "not asked")


def _row(admin: str, status: Mapping[str, Any], state: str) -> Row:
    return {
        "admin": admin,
        "node_id": status.get("node_id"),
        "zone": status.get("zone", ""),
        "state": state,
        "in_bytes_per_second": None,
        "out_bytes_per_second": None,
        "requests_per_second": None,
        "produce_p99_ms": None,
        "loop_busy": None,
        "connections": None,
    }


def _whole(pages: Pages | None, family: str) -> float | None:
    """Return the sample without a topic: the sum over all topics."""
    samples = pages.samples.get(family, ()) if pages is not None else ()
    values = [value for labels, value in samples if "topic" not in labels]
    return sum(values) if values else None


def _requests(pages: Pages | None) -> float | None:
    if pages is None:
        return None
    samples = pages.samples.get("kafka_network_requestmetrics_requests_total", ())
    return sum(value for labels, value in samples if labels.get("request") != _FETCH_CONSUMER)


def _produce_p99_ms(samples: Samples) -> float | None:
    for labels, value in samples.get("kafka_network_requestmetrics_totaltimems", ()):
        if labels.get("request") == "Produce" and labels.get("quantile") == "0.99":
            return value
    return None


def _seconds(before: Pages | None, now: Pages) -> float:
    return now.read_at - before.read_at if before is not None else 0.0


def _rate(before: float | None, now: float | None, seconds: float) -> float | None:
    if before is None or now is None or now < before or seconds <= 0:
        return None
    return (now - before) / seconds


# -- topics and groups -----------------------------------------------------------------------------


def _topics(pairs: Sequence[tuple[Pages | None, Pages]], cluster: Samples) -> list[Row]:
    partitions = _by_label(cluster, PARTITIONS, "topic")
    rates = {name: _topic_rates(pairs, family) for name, family in _BY_TOPIC}
    names = {*partitions, *(topic for each in rates.values() for topic in each)}
    rows: list[Row] = []
    for topic in names:
        row: Row = {"name": topic}
        row |= {name: each.get(topic, 0.0) for name, each in rates.items()}
        row["partitions"] = round(partitions[topic][0]) if topic in partitions else None
        rows.append(row)
    return sorted(rows, key=lambda row: (-_traffic(row), row["name"]))


def _traffic(row: Row) -> float:
    return float(row["in_bytes_per_second"] + row["out_bytes_per_second"])


def _topic_rates(pairs: Iterable[tuple[Pages | None, Pages]], family: str) -> Mapping[str, float]:
    """Return each topic's rate, summed over gateways.

    A series that the earlier frame does not have has no rate: when a topic gets a series, the
    series begins with the topic's whole count.
    """
    found: defaultdict[str, float] = defaultdict(float)
    for before, now in pairs:
        earlier = _by_label(before.samples, family, "topic") if before is not None else {}
        for topic, values in _by_label(now.samples, family, "topic").items():
            known = sum(earlier[topic]) if topic in earlier else None
            found[topic] += _rate(known, sum(values), _seconds(before, now)) or 0
    return found


def _groups(cluster: Samples) -> list[Row]:
    members = _by_label(cluster, "kafka_consumergroup_members", "consumergroup")
    lags = _by_label(cluster, "kafka_consumergroup_lag_sum", "consumergroup")
    seconds = _by_label(cluster, "tidegate_group_lag_seconds", "consumergroup")
    used = _by_label(cluster, "tidegate_group_retention_used_ratio", "consumergroup")
    beyond = _by_label(cluster, "tidegate_group_beyond_end_offsets", "consumergroup")
    rows: list[Row] = []
    for name in {*members, *lags}:
        count = round(sum(members.get(name, [0])))
        rows.append(
            {
                "name": name,
                "state": "active" if count else "empty",
                "members": count,
                # Gateways of older releases report negative lags.
                "lag": round(sum(max(each, 0) for each in lags[name])) if name in lags else None,
                "beyond_end": round(sum(beyond[name])) if name in beyond else None,
                "lag_seconds": max(seconds[name]) if name in seconds else None,
                "headroom": max(1 - max(used[name]), 0.0) if name in used else None,
            }
        )
    return sorted(rows, key=lambda row: (-(row["lag"] or 0), row["name"]))


def _by_label(samples: Samples, family: str, label: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for labels, value in samples.get(family, ()):
        if label in labels:
            found.setdefault(labels[label], []).append(value)
    return found


# -- the object store ------------------------------------------------------------------------------


def _store(pairs: Sequence[tuple[Pages | None, Pages]], prices: Prices) -> Row:
    """Return the columns of requests to the store and their cost.

    The pages state the stored bytes of the whole cluster; the largest figure counts.
    """
    rates: defaultdict[str, float] = defaultdict(float)
    crossed = 0.0
    for before, now in pairs:
        of_gateway, seconds = _cost_since(before, now)
        if seconds > 0:
            for kind, count in _by_kind(of_gateway["requests"]).items():
                rates[kind] += count / seconds
            crossed += of_gateway["crossed_bytes"] / seconds
    kept_bytes = max((now.cost.get("kept_bytes", 0) for _, now in pairs), default=0)
    hourly = {kind: prices.of_requests({kind: 1}) * rates[kind] * HOUR_SECONDS for kind in KINDS}
    hourly["crossed"] = prices.of_crossed(1) * crossed * HOUR_SECONDS
    hourly["kept"] = prices.of_kept(kept_bytes)
    hourly["total"] = sum(hourly.values())
    return {
        "requests_per_second": {kind: rates[kind] for kind in KINDS},
        "crossed_bytes_per_second": crossed,
        "kept_bytes": kept_bytes,
        "money_per_hour": hourly,
        "money_per_month": {name: money * MONTH_HOURS for name, money in hourly.items()},
        "prices": {"region": prices.region, "date": prices.date},
    }


def _cost_since(before: Pages | None, now: Pages) -> tuple[Mapping[str, Any], float]:
    """Return the requests of a gateway between two frames, and the seconds between these.

    After each cost.interval.ms a gateway starts its sums at 0.  Then only the new sums count.
    """
    cost = now.cost
    if not cost:
        return {}, 0.0
    if before is None or before.cost.get("since_ms") != cost["since_ms"]:
        return cost, (cost["until_ms"] - cost["since_ms"]) / 1000
    earlier = before.cost
    requests: Counter[str] = Counter(cost["requests"])
    requests.subtract(earlier["requests"])
    asked: dict[str, Any] = {
        "requests": requests,
        "crossed_bytes": cost["crossed_bytes"] - earlier["crossed_bytes"],
    }
    return asked, (cost["until_ms"] - earlier["until_ms"]) / 1000


def _by_kind(requests: Mapping[str, int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, count in requests.items():
        found[name.partition(" ")[0]] += count
    return found
