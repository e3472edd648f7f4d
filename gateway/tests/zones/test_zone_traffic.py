"""Bytes within and across zones are counted, and the report advises clients that cross zones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socket import create_connection
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.worlds.app_world import pages_of, started_gateway, starting_pages
from tests.worlds.wire_client import produce_request, records_batch
from tests.zones.test_zone_answers import fetched, zoned
from tests.zones.test_zones import finder
from tidegate_gateway.admin.metrics import render_metrics
from tidegate_gateway.cli.admin_reader import Access
from tidegate_gateway.cli.command import app
from tidegate_gateway.cli.zones import NOT_TOLD, run_zones, text_of
from tidegate_gateway.network.call import Peer
from tidegate_gateway.network.client_zone import NOWHERE, ClientZone, Source
from tidegate_gateway.zones import zone_traffic
from tidegate_gateway.zones.zone_report import advice, zone_report
from tidegate_gateway.zones.zone_traffic import (
    MAX_CLIENTS,
    OTHERS,
    ClientTraffic,
    Kind,
    ZoneTraffic,
)

BATCH = records_batch(b"v" * 100)


async def test_bytes_are_counted_by_zone_and_client(autojump_clock: object) -> None:
    async with zoned() as (_, running):
        for client_id in ("x,zone=a", "y,zone=b", "z"):
            client = running[1].world.connect()
            client.client_id = client_id
            # The first request goes to produce.py, and the last one takes the fast path.
            for _ in range(3):
                assert (await client.produce("t", 0, BATCH)).error_code == 0
        two = running[1].world.connect()
        two.client_id = "two,zone=b"
        await two.call("Produce", 9, produce_request([("t", 0, BATCH), ("t", 1, BATCH)]))
        await fetched(two, "")
        two.transport.close()
        report = running[1].gateway.view.report()
        again = running[1].gateway.view.report()
        metrics = (await render_metrics(running[1].gateway)).decode()

    size = len(BATCH)
    assert report == again
    assert report["produced"] == {"same": 3 * size, "cross": 5 * size, "unknown": 3 * size}
    assert report["fetched"] == {"same": 0, "cross": 10 * size, "unknown": 0}
    rows = {each["client_id"]: each for each in report["clients"]}  # type: ignore[attr-defined]
    assert list(rows) == ["two,zone=b", "y,zone=b", "z", "x,zone=a"]
    assert rows["x,zone=a"]["advice"] == ""
    assert rows["z"]["advice"].startswith("Its zone is not known: add ,zone=")
    assert rows["two,zone=b"]["told_by"] == "client.id"
    line = f'tidegate_zone_bytes_total{{direction="produced",zone="cross"}} {float(5 * size)}'
    assert line in metrics
    assert json.loads(json.dumps(report)) == report
    text = text_of(report)
    assert "y,zone=b: zone b by client.id" in text
    assert "x,zone=a" not in text


def test_client_ids_that_are_too_many_are_counted_together() -> None:
    traffic = ZoneTraffic(finder("a"), "a")
    for number in range(MAX_CLIENTS + 50):
        peer = Peer("h", 1, "A", client_id=f"{number},zone=a", produced_bytes=2, fetched_bytes=3)
        traffic.book(peer)
        traffic.book(peer)
    assert len(traffic.clients) == MAX_CLIENTS + 1
    others = traffic.clients[OTHERS]
    assert (others.bytes.produced[Kind.SAME], others.bytes.fetched[Kind.SAME]) == (100, 150)
    assert traffic.totals.produced[Kind.SAME] == 2 * (MAX_CLIENTS + 50)
    assert advice(others, {"a"}, "a").startswith("There are too many client ids")


def test_random_client_ids_do_not_hide_clients_that_cross_zones() -> None:
    traffic = ZoneTraffic(finder("a", "b"), "a")
    for number in range(2 * MAX_CLIENTS):
        traffic.book(Peer("h", 1, "A", client_id=f"{number},zone=a", produced_bytes=2))
    for _ in range(3):
        traffic.book(Peer("h", 1, "A", client_id="late,zone=b", produced_bytes=5, fetched_bytes=1))
        for number in range(MAX_CLIENTS):
            traffic.book(Peer("h", 1, "A", client_id=f"again {number},zone=a", fetched_bytes=2))
            traffic.book(Peer("h", 1, "A", client_id=f"{number},zone=b", produced_bytes=1))

    late = traffic.clients["late,zone=b"]
    assert (late.bytes.produced[Kind.CROSS], late.bytes.fetched[Kind.CROSS]) == (15, 3)
    assert len(traffic.clients) == MAX_CLIENTS + 1
    assert len(traffic._by_crossing) == MAX_CLIENTS


SIZES = st.integers(0, 3)
BOOKINGS = st.lists(
    st.tuples(st.sampled_from("uvwxyz"), st.sampled_from(["", ",zone=a", ",zone=b"]), SIZES, SIZES)
)


def _peer(client_id: str, produced: int, fetched_: int) -> Peer:
    return Peer("h", 1, "A", client_id=client_id, produced_bytes=produced, fetched_bytes=fetched_)


@given(BOOKINGS)
def test_totals_are_exact_and_the_one_that_crossed_least_goes(
    bookings: list[tuple[str, str, int, int]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zone_traffic, "MAX_CLIENTS", 3)
        traffic = ZoneTraffic(finder("a", "b"), "a")
        for name, zone, produced, fetched_ in bookings:
            kept = {key: each.crossing() for key, each in traffic.clients.items() if key != OTHERS}
            traffic.book(_peer(f"{name}{zone}", produced, fetched_))
            gone = kept.keys() - traffic.clients.keys()
            assert all(kept[each] == min(kept.values()) for each in gone)
            assert len(traffic.clients.keys() - {OTHERS}) <= 3
    clients = traffic.clients.values()
    for kind in Kind:
        assert traffic.totals.produced[kind] == sum(c.bytes.produced[kind] for c in clients)
        assert traffic.totals.fetched[kind] == sum(c.bytes.fetched[kind] for c in clients)
    assert sum(traffic.totals.produced.values()) == sum(produced for _, _, produced, _ in bookings)


@pytest.mark.parametrize(
    ("zone", "produced", "fetched_", "sentence"),
    [
        (ClientZone("a", Source.CLIENT_ID), 0, 0, ""),
        (NOWHERE, 0, 0, "Its zone is not known: add ,zone=<its zone> to its client.id"),
        (
            ClientZone("mars", Source.CLIENT_ID),
            1,
            0,
            "Zone mars has no gateway that takes new work",
        ),
        (ClientZone("zone1", Source.RACK), 1, 0, "Did you mean zone-1? Zone zone1 has no gateway"),
        (ClientZone("b", Source.RACK), 1, 0, "It produces before its rack is known: add ,zone=b"),
        (ClientZone("b", Source.RACK), 0, 1, "Its client.rack alone moves it only where topics"),
        (ClientZone("b", Source.ADDRESS), 1, 1, "It knows gateways of zone b from its next"),
        (ClientZone("a", Source.RACK), 0, 0, ""),
        (ClientZone("a", Source.LISTENER), 1, 0, "It crossed zones before its present zone"),
    ],
)
def test_each_cause_has_its_advice(
    zone: ClientZone, produced: int, fetched_: int, sentence: str
) -> None:
    client = ClientTraffic("app", zone)
    client.bytes.produced[Kind.CROSS] = produced
    client.bytes.fetched[Kind.CROSS] = fetched_
    found = advice(client, {"a", "b", "zone-1"}, "a")
    assert found.startswith(sentence)
    assert bool(found) == bool(sentence)


async def test_the_page_is_there_once_the_gateway_is() -> None:
    pages = starting_pages()
    assert (await pages.answer("GET", "/v1/zones")).status == 503
    async with started_gateway() as gateway:
        answer = await pages_of(gateway).answer("GET", "/v1/zones")
    report = json.loads(answer.body)
    assert (report["zone"], report["zones"], report["clients"]) == ("az1", ["az1"], [])
    assert text_of(report).endswith("All gateways are of one zone: nothing crosses zones here.")


def test_a_cluster_of_one_zone_needs_no_zone_of_its_clients() -> None:
    traffic = ZoneTraffic(finder("a"), "a")
    traffic.book(Peer("h", 1, "A", client_id="app", produced_bytes=1))
    report = zone_report(traffic, {"a"}, moved=0, without_gateway=0)
    assert text_of(report).endswith("All gateways are of one zone: nothing crosses zones here.")


def test_zone_names_that_look_alike_are_reported() -> None:
    zones = {"az-1", "az-2", "AZ2", "az-12"}
    report = zone_report(ZoneTraffic(finder("az-1"), "az-1"), zones, moved=0, without_gateway=0)
    text = text_of(report)
    assert "Zones AZ2 and az-2 look like one" in text
    assert text.count("look like one") == 1


def test_names_of_clients_reach_the_terminal_escaped() -> None:
    traffic = ZoneTraffic(finder("a"), "a")
    traffic.book(Peer("h", 1, "A", client_id="x\x1b[2J,zone=b\x07", produced_bytes=1))
    report = zone_report(traffic, {"a"}, moved=0, without_gateway=0)
    text = text_of(json.loads(json.dumps(report)))
    assert "x\\x1b[2J,zone=b\\x07: zone b\\x07 by client.id" in text
    assert all(each.isprintable() for each in text.split("\n"))


def test_a_gateway_is_asked_without_a_proxy_of_the_web(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            pass

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        run_zones([f"127.0.0.1:{server.server_port}"], Access(), as_json=False)
        with suppress(OSError):
            create_connection(("127.0.0.1", server.server_port)).close()
        thread.join()
    assert "answers 404" in capsys.readouterr().err


def test_a_gateway_that_asks_for_a_token_is_given_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[str | None] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given.append(self.headers["Authorization"])
            self.send_error(401)

        def log_message(self, format: str, *args: object) -> None:
            pass

    token = tmp_path / "token"
    token.write_text("secret\n")
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        admin = f"127.0.0.1:{server.server_port}"
        for access in (Access(), Access(token)):
            thread = Thread(target=server.handle_request)
            thread.start()
            assert run_zones([admin], access, as_json=False) == NOT_TOLD
            thread.join()
    assert given == [None, "Bearer secret"]
    assert "asks for its admin.token: give --token-file FILE" in capsys.readouterr().err
    assert run_zones([admin], Access(tmp_path / "none"), as_json=False) == NOT_TOLD
    assert "--token-file: " in capsys.readouterr().err
    assert run_zones([admin], Access(ca_file=tmp_path / "none"), as_json=False) == NOT_TOLD
    assert "--ca-file: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("admin", "sentence"),
    [
        ("nonsense", "tidegate: --admin=nonsense is not host:port"),
        ("127.0.0.1:1", "tidegate: no gateway's admin listener answers at 127.0.0.1:1"),
    ],
)
def test_the_zone_report_says_that_no_gateway_answers(
    admin: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_zones([admin], Access(), as_json=False) == NOT_TOLD
    assert capsys.readouterr().err.startswith(sentence)


@contextmanager
def answering(report: object) -> Iterator[str]:
    """Serve a report once; yield the host:port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(report).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        with suppress(OSError):
            create_connection(("127.0.0.1", server.server_port)).close()
        thread.join()


def report_of(own_zone: str, *booked: tuple[str, int, int]) -> dict[str, object]:
    traffic = ZoneTraffic(finder("a", "b"), own_zone)
    for client_id, produced, fetched_ in booked:
        traffic.book(_peer(client_id, produced, fetched_))
    return zone_report(traffic, {own_zone, "c"}, moved=1, without_gateway=2)


def test_several_gateways_are_summed_by_client() -> None:
    in_a = report_of("a", ("x,zone=a", 5, 1), ("y,zone=b", 3, 0), ("z", 1, 0))
    in_b = report_of("b", ("x,zone=a", 20, 2), ("y,zone=b", 0, 4), ("z", 0, 7))
    with answering(in_a) as one, answering(in_b) as two:
        # A gateway that is given twice counts once.
        arguments = ["zones", "--json", *(f"--admin={each}" for each in (one, two, one))]
        result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert (report["gateways"], report["zone"], report["zones"]) == (2, "a, b", ["a", "b", "c"])
    assert report["produced"] == {"same": 5, "cross": 23, "unknown": 1}
    assert report["fetched"] == {"same": 5, "cross": 2, "unknown": 7}
    assert (report["moved_fetches"], report["answers_without_gateway_in_zone"]) == (2, 4)
    x, y, z = report["clients"]
    assert [each["client_id"] for each in (x, y, z)] == ["x,zone=a", "y,zone=b", "z"]
    assert x["produced"] == {"same": 5, "cross": 20, "unknown": 0}
    assert x["fetched"] == {"same": 1, "cross": 2, "unknown": 0}
    assert (x["advice"] != "", y["advice"] != "", z["told_by"]) == (True, True, "nothing")
    assert z["fetched"]["unknown"] == 7
    text = text_of(report)
    assert text.startswith("2 gateways     of zones a, b\n")
    assert "x,zone=a: zone a by client.id" in text


def test_one_gateway_is_printed_as_it_answers() -> None:
    report = report_of("a", ("y,zone=b", 3, 0))
    with answering(report) as admin:
        result = CliRunner().invoke(app, ["zones", "--json", "--admin", admin])
    assert json.loads(result.stdout) == report


def test_a_gateway_that_does_not_answer_is_not_left_out() -> None:
    with answering(report_of("a")) as admin:
        arguments = ["zones", "--admin", admin, "--admin", "127.0.0.1:1"]
        result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, result.stdout) == (NOT_TOLD, "")
    assert "no gateway's admin listener answers at 127.0.0.1:1" in result.stderr
