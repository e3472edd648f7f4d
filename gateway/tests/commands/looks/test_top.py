"""`tidegate top`: rates from two frames, in any terminal, with any names."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate_gateway.cli.top.frames import Frame, Pages
from tidegate_gateway.cli.top.rates import Row, decide
from tidegate_gateway.cli.top.samples import Sample, Samples, read_samples
from tidegate_gateway.cli.top.text import shares, text_of
from tidegate_gateway.cost.bill import packaged_prices
from tidegate_runtime.prometheus import label, line

PRICES = packaged_prices()
TOPICS = "kafka_server_brokertopicmetrics_{}_total"
REQUESTS = "kafka_network_requestmetrics_requests_total"
TIMES = "kafka_network_requestmetrics_totaltimems"
IDLE = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"
HOSTILE = '\x1b[2J"\\\n\u2028\x0b\u202e' + "x" * 300


def pages(
    admin: str,
    at: float,
    *,
    node_id: int = 1,
    topics: dict[str, tuple[float, float, float]] | None = None,
    requests: float = 0,
    cost: dict[str, Any] | None = None,
    known: tuple[int, ...] = (1,),
) -> Pages:
    """The pages of a gateway.  topics: by name, bytes in, bytes out and records."""
    samples: Samples = {
        REQUESTS: [
            Sample({"request": "Produce"}, requests),
            Sample({"request": "Fetch"}, 5),
            Sample({"request": "FetchConsumer"}, 5),
        ],
        TIMES: [
            Sample({"request": "Produce", "quantile": "0.50"}, 3.0),
            Sample({"request": "Produce", "quantile": "0.99"}, 7.5),
            Sample({"request": "Fetch", "quantile": "0.99"}, 9.0),
        ],
        IDLE: [Sample({}, 0.75)],
    }
    topics = topics or {}
    for place, name in enumerate(("bytesin", "bytesout", "messagesin")):
        whole = sum(each[place] for each in topics.values())
        rows = [Sample({"topic": topic}, each[place]) for topic, each in topics.items()]
        samples[TOPICS.format(name)] = [Sample({}, whole), *rows]
    status = {
        "ready": True,
        "cluster_id": "c",
        "node_id": node_id,
        "zone": "az1",
        "state": "serving",
        "connections": 12,
        "gateways": [{"node_id": each, "zone": f"az{each}"} for each in known],
    }
    return Pages(admin, at, "", status, samples, cost or {})


def cost(since_ms: int, until_ms: int, *, puts: int, crossed: int = 0) -> dict[str, Any]:
    return {
        "since_ms": since_ms,
        "until_ms": until_ms,
        "requests": {"put wal": puts, "put log": puts, "get segments": 10},
        "crossed_bytes": crossed,
        "kept_bytes": 10**12,
    }


def frame(*gateways: Pages, cluster: Samples | None = None) -> Frame:
    return Frame(1_700_000_000_000, gateways, cluster or {})


def by(rows: list[Row], key: str) -> dict[Any, Row]:
    return {each[key]: each for each in rows}


# -- rates -----------------------------------------------------------------------------------------


def test_rates_are_those_between_two_frames_of_all_gateways() -> None:
    before = frame(
        pages("a", 10.0, topics={"t": (1e6, 0, 10), "u": (0, 5e6, 0)}, requests=100),
        pages("b", 10.5, node_id=2, topics={"t": (9e6, 0, 10)}),
    )
    now = frame(
        pages("a", 12.0, topics={"t": (5e6, 2e6, 30), "u": (0, 5e6, 0)}, requests=150),
        pages("b", 14.5, node_id=2, topics={"t": (13e6, 0, 50)}),
    )
    report = decide(before, now, PRICES)
    one, two = report["gateways"]
    assert one == {
        "admin": "a",
        "node_id": 1,
        "zone": "az1",
        "state": "serving",
        "in_bytes_per_second": 2e6,
        "out_bytes_per_second": 1e6,
        # A fetch of a consumer counts in two metrics, but is one request.
        "requests_per_second": 25.0,
        "produce_p99_ms": 7.5,
        "loop_busy": 0.25,
        "connections": 12,
    }
    assert two["in_bytes_per_second"] == 1e6
    topics = by(report["topics"], "name")
    assert topics["t"]["in_bytes_per_second"] == 3e6
    assert topics["t"]["out_bytes_per_second"] == 1e6
    assert topics["t"]["records_per_second"] == 20
    assert [each["name"] for each in report["topics"]] == ["t", "u"]


def test_a_gateway_that_began_anew_or_just_came_has_no_rates() -> None:
    before = frame(pages("a", 10.0, topics={"t": (9e6, 0, 10)}, requests=100))
    now = frame(
        pages("a", 12.0, topics={"t": (1e6, 0, 1)}, requests=3),
        pages("b", 12.0, node_id=2, topics={"t": (7e9, 0, 10)}, requests=10**6),
    )
    report = decide(before, now, PRICES)
    for each in report["gateways"]:
        assert each["in_bytes_per_second"] is None
        assert each["requests_per_second"] is None
    assert report["topics"][0]["in_bytes_per_second"] == 0


def test_a_topic_that_gets_a_series_of_its_own_makes_no_peak() -> None:
    before = frame(pages("a", 10.0, topics={"_other": (9e9, 0, 10)}))
    now = frame(pages("a", 12.0, topics={"t": (9e9, 0, 10), "_other": (0, 0, 0)}))
    topics = by(decide(before, now, PRICES)["topics"], "name")
    assert topics["t"]["in_bytes_per_second"] == topics["_other"]["in_bytes_per_second"] == 0


def test_gateways_that_are_silent_or_were_not_asked_are_named() -> None:
    known = (1, 2, 3)
    answering = pages("a", 10.0, known=known)
    silent = Pages("b", 10.0, "b does not answer in time", {"node_id": 2, "zone": "az2"})
    report = decide(frame(answering), frame(answering, silent), PRICES)
    assert (report["asked"], report["answered"]) == (2, 1)
    assert report["problems"] == [{"admin": "b", "why": "b does not answer in time"}]
    shown = [(each["node_id"], each["state"]) for each in report["gateways"]]
    assert shown == [(1, "serving"), (2, "no answer"), (3, "not asked")]
    # The gateway at this address may be 2 or 3.
    never = Pages("b", 10.0, "b does not answer in time")
    report = decide(frame(answering), frame(answering, never), PRICES)
    shown = [(each["node_id"], each["state"]) for each in report["gateways"]]
    assert shown == [(1, "serving"), (None, "no answer")]


def test_groups_are_summed_over_their_topics() -> None:
    def of(value: float, group: str, **labels: str) -> Sample:
        return Sample({"consumergroup": group, **labels}, value)

    cluster: Samples = {
        "kafka_topic_partitions": [Sample({"topic": "t"}, 3)],
        "kafka_consumergroup_members": [of(2, "g"), of(0, "h")],
        "kafka_consumergroup_lag_sum": [of(5, "g", topic="t"), of(7, "g", topic="u")],
        "tidegate_group_beyond_end_offsets": [of(4, "g", topic="t"), of(0, "g", topic="u")],
        "tidegate_group_lag_seconds": [of(60, "g", topic="t"), of(90, "g", topic="u")],
        "tidegate_group_retention_used_ratio": [
            of(0.25, "g", topic="t"),
            of(0.5, "g", topic="u"),
        ],
    }
    now = frame(pages("a", 12.0), cluster=cluster)
    report = decide(now, now, PRICES)
    assert report["topics"] == [
        {
            "name": "t",
            "in_bytes_per_second": 0,
            "out_bytes_per_second": 0,
            "records_per_second": 0,
            "partitions": 3,
        }
    ]
    assert report["groups"] == [
        {
            "name": "g",
            "state": "active",
            "members": 2,
            "lag": 12,
            "beyond_end": 4,
            "lag_seconds": 90,
            "headroom": 0.5,
        },
        {
            "name": "h",
            "state": "empty",
            "members": 0,
            "lag": None,
            "beyond_end": None,
            "lag_seconds": None,
            "headroom": None,
        },
    ]


def test_the_store_is_what_all_gateways_ask_and_its_money() -> None:
    before = frame(
        pages("a", 10.0, cost=cost(0, 100_000, puts=100)),
        pages("b", 10.0, node_id=2, cost=cost(0, 100_000, puts=0)),
    )
    now = frame(
        pages("a", 12.0, cost=cost(0, 102_000, puts=104, crossed=10**9)),
        # This gateway's interval ended, so the sums of its new interval count.
        pages("b", 12.0, node_id=2, cost=cost(50_000, 100_000, puts=50)),
        pages("starting", 12.0, node_id=3, cost={}),
    )
    store = decide(before, now, PRICES)["store"]
    assert store["requests_per_second"] == {"put": 4 + 2, "get": 0.2, "list": 0, "delete": 0}
    assert store["kept_bytes"] == 10**12
    hour = store["money_per_hour"]
    assert hour["put"] == pytest.approx(6 * 3600 * PRICES.requests.put / 1000)
    assert hour["crossed"] == pytest.approx(0.5 * 3600 * PRICES.gigabytes.crossed)
    month = store["money_per_month"]
    assert month["kept"] == pytest.approx(1000 * PRICES.gigabytes.month)
    assert month["put"] == pytest.approx(hour["put"] * 730)
    assert hour["total"] == pytest.approx(sum(hour.values()) / 2)
    assert store["prices"]["date"] == PRICES.date


# -- pages -----------------------------------------------------------------------------------------


def test_names_on_pages_are_read_as_they_are() -> None:
    name = "kafka_consumergroup_lag_sum"
    names = [HOSTILE, "a b", 'a"} 1', "\\n", "{}", ""]
    text = "\n".join(
        [
            "# HELP kafka_consumergroup_lag_sum x",
            *(
                line(name, f"{label('consumergroup', each)},{label('topic', 't')}", 3)
                for each in names
            ),
            line("kafka_consumergroup_lag_sum_more", label("consumergroup", "no"), 1),
            'kafka_consumergroup_lag_sum{consumergroup="cut',
            "kafka_consumergroup_lag_sum nothing",
            line("tidegate_ready", "", 1),
        ]
    )
    found = read_samples(text, {name, "tidegate_ready"})
    assert [each.labels["consumergroup"] for each in found[name]] == names
    assert all(each.labels["topic"] == "t" for each in found[name])
    assert found["tidegate_ready"] == [Sample({}, 1.0)]
    assert set(found) == {name, "tidegate_ready"}


# -- text ------------------------------------------------------------------------------------------


def large_report() -> Row:
    topics = {f"{number}{HOSTILE}": (1e12, 1e12, 1e9) for number in range(1_000)}
    members = [Sample({"consumergroup": f"{n}{HOSTILE}"}, 9_999) for n in range(500)]
    before = [pages(f"[::{n}]:9644", 10.0, node_id=n, topics={}) for n in range(40)]
    before += [pages("a", 10.0, node_id=99, topics=dict.fromkeys(topics, (0, 0, 0)))]
    now = [pages(f"[::{n}]:9644", 12.0, node_id=n, requests=1e9) for n in range(39)]
    now += [Pages(f"[{'1234:' * 7}1234]:9644", 12.0, "it does not answer")]
    now += [pages("a", 12.0, node_id=99, topics=topics, cost=cost(0, 1_000, puts=10**7))]
    cluster = {"kafka_consumergroup_members": members}
    return decide(frame(*before), frame(*now, cluster=cluster), PRICES)


@pytest.mark.parametrize("height", [1, 5, 16, 17, 20, 24, 50, 200, None])
@pytest.mark.parametrize("columns", [40, 80, 132])
def test_a_frame_fits_every_terminal(height: int | None, columns: int) -> None:
    lines = text_of(large_report(), height=height, columns=columns)
    assert all(len(each) <= columns for each in lines)
    assert all(each.isprintable() for each in lines)
    if height is not None:
        assert len(lines) == height
    if height is None or height >= 20:
        titles = [
            each for each in lines if each.startswith(("GATEWAYS", "TOPICS", "GROUPS", "STORE"))
        ]
        assert len(titles) == 4
        assert lines[-1].startswith("$/month")
    if height == 24 and columns == 80:
        assert "TOPICS  3 of 1,000" in lines


def test_rows_are_shared_out() -> None:
    assert shares(9, [100, 100, 100]) == [3, 3, 3]
    assert shares(9, [1, 100, 100]) == [1, 4, 4]
    assert shares(9, [1, 2, 3]) == [1, 2, 3]
    assert shares(2, [5, 5, 5]) == [1, 1, 0]
    assert shares(0, [5, 5, 5]) == [0, 0, 0]
    assert sum(shares(10, [5, 0, 100])) == 10


def test_a_frame_shows_what_it_knows() -> None:
    before = frame(pages("a", 10.0, topics={"t": (0, 0, 0)}))
    now = frame(pages("a", 12.0, topics={"t": (3e6, 400e6, 5e6)}, requests=8))
    lines = text_of(decide(before, now, PRICES))
    assert lines[0] == "22:13:20 UTC  1 of 1 gateways answered  c"
    assert lines[4].split() == ["1", "az1", "serving", "1.5", "200", "4.0", "8", "25%", "12"]
    assert lines[8].split() == ["t", "1.5", "200", "2,500,000", "-"]


def test_a_frame_that_no_gateway_answered_says_why() -> None:
    unanswered = frame(Pages("a", 12.0, "a does not answer in time"))
    lines = text_of(decide(unanswered, unanswered, PRICES))
    assert lines[:2] == [
        "22:13:20 UTC  0 of 1 gateways answered  no cluster",
        "a does not answer in time",
    ]
