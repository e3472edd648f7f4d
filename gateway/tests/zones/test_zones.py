"""The zone of a client: as the client says, or by the gateway's settings."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from itertools import combinations
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_coordination.events.cluster import GatewayExpired, GatewayRegistered
from tidegate_coordination.state.writers.gateways import GatewayTable
from tidegate_gateway.network.call import Peer
from tidegate_gateway.network.client_zone import NOWHERE, Source
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.zones.client_racks import ClientRacks
from tidegate_gateway.zones.zone_finder import MAX_REMEMBERED, ZoneFinder
from tidegate_gateway.zones.zone_settings import check_listeners, zone_maps
from tidegate_gateway.zones.zones import KEYS, said_in_client_id, without_suffixes
from tidegate_runtime.settings_texts import SettingsError

PARTS = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=6)
ZONES = st.lists(PARTS, min_size=1, max_size=4).map("-".join)
SUFFIXES = st.sampled_from(["", "-0", "-StreamThread-1-consumer", "-producer", "-0-5f2c-admin"])
WORDS = st.lists(st.sampled_from(["app", "timezone=cet", "az=x", "my_zone=y", "a=b=c", "zone="]))
SEPARATORS = st.sampled_from(", |&;")


def finder(*zones: str, **settings: str) -> ZoneFinder:
    """Return a ZoneFinder for gateways in these zones; settings: with '_' for '.'."""
    table = GatewayTable()
    for number, zone in enumerate(zones, 1):
        table.fold_registered(GatewayRegistered(number, number, f"k{number}", zone, (), "0", 0), 0)
    static = {name.replace("_", "."): text for name, text in settings.items()}
    return ZoneFinder(zone_maps(BrokerSettings(static)), table)


def peer(found: ZoneFinder, host: str = "192.0.2.1", listener: str = "A") -> Peer:
    return Peer(host, 1, listener, origin=found.origin_of(listener, host))


@pytest.mark.parametrize(
    ("client_id", "zone"),
    [
        ("app,zone=b", "b"),
        ("ws_az=us-east-1a", "us-east-1a"),
        ("x,warpstream_az=us-east-1a,ws_host_override=h", "us-east-1a"),
        ("diskless_az=a|src->dst|0", "a"),
        ("app,diskless_rack_id=a", "a"),
        ("app inkless_az=a", "a"),
        ("automq_type=producer&automq_role=r&automq_az=us-east-1a&old", "us-east-1a"),
        ("automq_az=us%2Deast%2D1a&old", "us-east-1a"),
        ("automq_az%3Dus-east-1a&old", "us-east-1a"),
        ("automq_type%3Dproducer%26automq_az%3Daz-1", "az-1"),
        ("automq_az%3Daz-1%26automq_type%3Dproducer-0", "az-1"),
        ("a=b,app%2Czone%3Daz%2D1%2Cold", "az-1"),
        ("automq_az=a%26b&old", "a&b"),
        ("host_override=h;zone=z;broker_count=3", "z"),
        ("tidegate_az=first,zone=second", "first"),
        ("timezone=cet", ""),
        ("zone", ""),
        ("zone=,app", ""),
        ("", ""),
    ],
)
def test_a_client_id_names_its_zone(client_id: str, zone: str) -> None:
    assert said_in_client_id(client_id) == zone


@given(ZONES, SUFFIXES, st.sampled_from(sorted(KEYS)), WORDS, WORDS, SEPARATORS, st.booleans())
def test_every_way_of_saying_a_zone_is_understood(
    zone: str,
    suffix: str,
    key: str,
    before: list[str],
    after: list[str],
    separator: str,
    is_encoded: bool,
) -> None:
    said = quote(zone, safe="") if is_encoded else zone
    # The suffix follows the whole client id, which ends with the zone if `after` is empty.
    client_id = separator.join([*before, f"{key}={said}", *after]) + suffix
    found = finder(zone, "elsewhere")

    assert found.of(peer(found), client_id) == (zone, Source.CLIENT_ID)


@given(st.text())
def test_no_client_id_breaks_it(client_id: str) -> None:
    found = finder("a")
    zone, source = found.of(peer(found), client_id)
    assert (source is Source.CLIENT_ID) == bool(zone)


def test_the_longest_known_beginning_counts() -> None:
    assert without_suffixes("us-east-1a-0", {"us", "us-east-1a"}) == "us-east-1a"
    assert without_suffixes("mars-1-0", {"us"}) == "mars-1-0"


def test_each_source_gives_way_to_the_one_before() -> None:
    found = finder("a", "b", "c", zone_listener_map="L:c", zone_cidr_map="d@192.0.2.0/24")
    other, mapped = peer(found, listener="X"), peer(found, listener="L")
    assert found.of(peer(found, "203.0.113.1", "X"), "app") is NOWHERE
    assert found.of(other, "app") == ("d", Source.ADDRESS)
    assert found.of(mapped, "app") == ("c", Source.LISTENER)
    found.racks.say(mapped, "app", "b")
    assert found.of(mapped, "app") == ("b", Source.RACK)
    assert found.of(mapped, "app,zone=a") == ("a", Source.CLIENT_ID)


def test_zones_that_only_a_map_names_are_known() -> None:
    found = finder("az-a", zone_cidr_map="az-d@10.0.0.0/8", zone_listener_map="L:az-e")
    assert found.of(peer(found), "zone=az-d-0") == ("az-d", Source.CLIENT_ID)
    assert found.of(peer(found), "zone=az-e-0") == ("az-e", Source.CLIENT_ID)


def test_an_unknown_zone_does_not_hide_a_known_one() -> None:
    found = finder("a", "b", zone_listener_map="L:c", zone_cidr_map="d@192.0.2.0/24")
    other, mapped, near = peer(found, "203.0.113.1"), peer(found, listener="L"), peer(found)
    assert found.of(near, "app,zone=prod") == ("d", Source.ADDRESS)
    assert found.of(mapped, "app,zone=prod") == ("c", Source.LISTENER)
    found.racks.say(mapped, "app,zone=prod", "test")
    assert found.of(mapped, "app,zone=prod") == ("c", Source.LISTENER)
    found.racks.say(mapped, "app,zone=prod", "b")
    assert found.of(mapped, "app,zone=prod") == ("b", Source.RACK)
    # Without a better source the unknown zone is kept, so that reports show and count it.
    assert found.of(other, "app,zone=prod") == ("prod", Source.CLIENT_ID)
    found.racks.say(other, "app", "test")
    assert found.of(other, "app") == ("test", Source.RACK)


def test_a_zone_whose_gateways_are_gone_is_known() -> None:
    table = GatewayTable()
    table.fold_registered(GatewayRegistered(1, 1, "k", "a", (), "0", 0), 0)
    maps = zone_maps(BrokerSettings({"zone.cidr.map": "d@192.0.2.0/24"}))
    found = ZoneFinder(maps, table)
    assert found.of(peer(found), "app,zone=a-0") == ("a", Source.CLIENT_ID)
    table.fold_expired(GatewayExpired(1))
    assert found.of(peer(found), "app,zone=a-0") == ("a", Source.CLIENT_ID)


def test_a_name_and_an_id_are_one_zone() -> None:
    found = finder("us-east-1a", zone_id_map="us-east-1a=use1-az4,us-east-1b=use1-az6")
    assert found.of(peer(found), "app,zone=us-east-1a-0").zone == "use1-az4"
    assert found.of(peer(found), "app,zone=use1-az4-0").zone == "use1-az4"
    assert found.of(peer(found), "app,zone=us-east-1b").zone == "use1-az6"


def test_a_zone_is_looked_at_again_when_gateways_come() -> None:
    table = GatewayTable()
    found = ZoneFinder(zone_maps(BrokerSettings()), table)
    assert found.of(peer(found), "zone=a-0").zone == "a-0"
    table.fold_registered(GatewayRegistered(1, 1, "k", "a", (), "0", 0), 0)
    assert found.of(peer(found), "zone=a-0").zone == "a"


def test_client_ids_do_not_fill_the_memory() -> None:
    found = finder("a")
    someone = peer(found)
    for number in range(3 * MAX_REMEMBERED):
        found.of(someone, f"{number},zone=a" + "x" * 2000)
    assert len(found._by_client_id) <= MAX_REMEMBERED + 1
    assert max(map(len, found._by_client_id)) <= 1024


# -- client.rack -----------------------------------------------------------------------------------


def test_a_rack_is_remembered_while_all_connections_agree() -> None:
    racks = ClientRacks()
    one, two, silent = Peer("h", 1, "A"), Peer("h", 2, "A"), Peer("h", 3, "A")
    racks.say(one, "app", "b")
    racks.say(one, "app", "b")
    assert racks.of(silent, "app") == "b"
    racks.say(two, "app", "c")
    assert (racks.of(silent, "app"), racks.of(one, "app"), racks.of(two, "app")) == ("", "b", "c")
    racks.forget(one)
    assert racks.of(silent, "app") == "c"
    racks.say(two, "app", "")
    racks.say(one, "app", "b")
    assert racks.of(silent, "app") == ""
    assert racks.of(Peer("elsewhere", 1, "A"), "app") == ""
    assert racks.of(silent, "other") == ""
    for each in (one, two, silent):
        racks.forget(each)
    assert len(racks) == 0


SAYINGS = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["x", "y"]), st.sampled_from([None, "", "b", "c"]))
)


@given(SAYINGS)
def test_racks_are_what_the_open_connections_said_last(
    sayings: list[tuple[int, str, str | None]],
) -> None:
    racks, peers = ClientRacks(), [Peer("h", number, "A") for number in range(5)]
    last: dict[int, tuple[str, str]] = {}
    for number, client_id, rack in sayings:
        if rack is None:
            racks.forget(peers[number])
            last.pop(number, None)
        else:
            racks.say(peers[number], client_id, rack)
            last[number] = (client_id, rack)
    for client_id in ("x", "y"):
        said = {rack for its_id, rack in last.values() if its_id == client_id}
        assert racks.of(Peer("h", 9, "A"), client_id) == (said.pop() if len(said) == 1 else "")


# -- addresses -------------------------------------------------------------------------------------


ADDRESSES = st.one_of(
    st.ip_addresses(v=4, network="10.0.0.0/24"), st.ip_addresses(v=6, network="fd00::/120")
)


@given(
    st.lists(st.tuples(ADDRESSES, st.integers(0, 10), st.sampled_from("abc"))),
    ADDRESSES,
)
def test_a_map_is_refused_or_right(rows: list[tuple[object, int, str]], host: object) -> None:
    zones = {}
    for address, spare, zone in rows:
        start = ip_address(str(address))
        network = ip_network(f"{start}/{start.max_prefixlen - spare}", strict=False)
        zones[network] = zone
    settings = BrokerSettings(
        {"zone.cidr.map": "<>".join(f"{zone}@{network}" for network, zone in zones.items())}
    )
    if any(
        zones[one] != zones[two] and one.version == two.version and one.overlaps(two)
        for one, two in combinations(zones, 2)
    ):
        with pytest.raises(SettingsError, match="give zones networks that do not overlap"):
            zone_maps(settings)
        return
    at = ip_address(str(host))
    inside = {zones[each] for each in zones if each.version == at.version and at in each}
    assert zone_maps(settings).by_address.zone_of(str(host)) == "".join(inside)


def test_an_ipv4_client_of_a_socket_for_both_is_one() -> None:
    maps = zone_maps(BrokerSettings({"zone.cidr.map": "a@10.0.0.0/9,fd00::/8<>b@10.129.0.0/16"}))
    hosts = ["::ffff:10.0.0.1", "10.129.2.3", "fd00::1", "8.8.8.8", "client", "fe80::1%eth0"]
    assert [maps.by_address.zone_of(each) for each in hosts] == ["a", "b", "a", "", "", ""]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"zone.cidr.map": "a@10.0.0.0/8<>b@10.0.0.0/8"},
            "zone.cidr.map: 10.0.0.0/8 is in zone a and in zone b; keep one of them",
        ),
        (
            {"zone.cidr.map": "b@10.1.0.0/16<>a@10.0.0.0/8"},
            "zone.cidr.map: 10.1.0.0/16 of zone b lies in 10.0.0.0/8 of zone a; give zones networks"
            " that do not overlap",
        ),
        (
            {"zone.cidr.map": "a@fd00::/8,fd00::/16,fd01::/16<>b@fd00:1::/32"},
            "zone.cidr.map: fd00:1::/32 of zone b lies in fd00::/16 of zone a; give zones networks",
        ),
        (
            {"zone.cidr.map": "a@::ffff:10.0.0.0/104"},
            "zone.cidr.map: '::ffff:10.0.0.0/104' matches no client, since IPv4 clients are known"
            " by their IPv4 addresses; write 10.0.0.0/8",
        ),
        ({"zone.cidr.map": "a@10.0.0.1/8"}, "zone.cidr.map: '10.0.0.1/8' is no network"),
        (
            {"zone.cidr.map": "a@10.0.1.0/19"},
            "zone.cidr.map: '10.0.1.0/19' is no network: it has bits set after its prefix;"
            " write 10.0.0.0/19",
        ),
        (
            {"zone.cidr.map": "a@10.0.0.0/19;b@10.0.32.0/19"},
            "zone.cidr.map: '10.0.0.0/19;b@10.0.32.0/19' is no network: networks are divided by"
            " commas and zones by <>, as in us-east-1a@10.0.0.0/19,",
        ),
        ({"zone.cidr.map": "10.0.0.0/8"}, "zone.cidr.map: '10.0.0.0/8' is not like"),
        ({"zone.cidr.map": "a@10.0.0.0/8,"}, "zone.cidr.map: '' is no network"),
        ({"zone.id.map": "us-east-1a"}, "zone.id.map: 'us-east-1a' is not like"),
        ({"zone.id.map": "a=x,a=y"}, "zone.id.map says both a=x and a=y"),
        ({"zone.id.map": "a=b,b=c"}, "zone.id.map: b is the id of a and has an id of its own, c"),
        ({"zone.listener.map": "A"}, "zone.listener.map: 'A' is not like"),
        ({"zone.listener.map": "a:x,A:y"}, "zone.listener.map says both A:x and A:y"),
        ({"zone.listener.map": "B:x"}, "zone.listener.map names B, which is not in listeners (A)"),
        ({"proxy.protocol.listeners": "B"}, "proxy.protocol.listeners names B, which is not in"),
    ],
)
def test_wrong_zone_settings_get_a_sentence(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check_listeners(zone_maps(BrokerSettings(settings)), BrokerSettings(settings), ["A"])
    assert str(caught.value).startswith(sentence)


def test_networks_of_one_zone_may_hold_each_other() -> None:
    text = "a@10.0.0.0/8,10.1.0.0/16,10.1.2.0/24,::/0<>b@11.0.0.0/8"
    maps = zone_maps(BrokerSettings({"zone.cidr.map": text}))
    hosts = ["10.1.2.3", "10.1.3.3", "10.2.0.1", "11.0.0.1", "fd00::1", "12.0.0.1"]
    assert [maps.by_address.zone_of(each) for each in hosts] == ["a", "a", "a", "b", "a", ""]


def test_the_same_said_twice_is_no_conflict() -> None:
    settings = {
        "zone.cidr.map": "us-east-1a@10.0.0.0/8<>use1-az4@10.0.0.0/8",
        "zone.id.map": "us-east-1a=use1-az4,use1-az4=use1-az4",
    }
    assert zone_maps(BrokerSettings(settings)).by_address.zone_of("10.0.0.1") == "use1-az4"
