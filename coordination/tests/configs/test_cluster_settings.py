"""Static settings apply to the cluster: gateways write them to the log; the careful value holds."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tidegate_coordination.configs.cluster_wide import CLUSTER_WIDE, OF_TOPICS, clusters_own
from tidegate_coordination.configs.definition import LONG_MAX
from tidegate_coordination.configs.effective import Source
from tidegate_coordination.configs.topic_settings import TopicSettings
from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import restores as rev
from tidegate_coordination.events.cluster import Event
from tidegate_coordination.events.entries import Entry
from tidegate_coordination.events.metadata_versions import NEWEST, SETTINGS_TOLD
from tidegate_coordination.rules.cluster_settings import (
    NO_GATEWAY,
    ClusterSettings,
    Disagreement,
    Own,
)
from tidegate_coordination.rules.gateways import TellSettings
from tidegate_coordination.rules.proposal import View
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.writers.static_settings import KEPT_MS, MAX_ENDED

NOW_MS = 1_700_000_000_000
HOUR = 3_600_000
FOREVER = {"log.retention.ms": "-1"}
BRIEF = {"log.retention.ms": "1000"}


class World:
    """A state, and events that are folded into it."""

    def __init__(self, level: int = NEWEST) -> None:
        self.state = ClusterState()
        self.now_ms = NOW_MS
        self.fold(ev.ClusterCreated("c", 1))
        if level > 1:
            self.fold(ev.MetadataVersionSet(level))
        self.fold(ev.TopicCreated(b"t" * 16, "t", 1, 1, {}))

    def fold(self, *events: Event, writer: int = 0) -> None:
        entry = Entry(1, b"", writer, self.now_ms, tuple(events))
        self.state.apply(self.state.position + 1, entry)

    def begin(self, node_id: int, static: dict[str, str] | None = None) -> int:
        """Register a gateway, and write its static settings unless None; return the incarnation."""
        present = self.state.gateways.by_node_id(node_id)
        incarnation = self.state.gateways.next_incarnation
        supersedes = present.incarnation if present is not None else 0
        self.fold(
            ev.GatewayRegistered(
                incarnation, node_id, f"k{node_id}", "az", (), "0", supersedes, NEWEST
            )
        )
        if static is not None:
            self.tell(incarnation, static)
        return incarnation

    def tell(self, incarnation: int, static: dict[str, str]) -> int:
        """Decide and fold TellSettings; return the number of events."""
        decided = TellSettings(incarnation, static).decide(self.view(incarnation))
        self.fold(*decided.events, writer=incarnation)
        return len(decided.events)

    def view(self, writer: int) -> View:
        return View(self.state, writer, self.now_ms, self.state.log_time_ms)

    def pass_hours(self, incarnation: int, hours: int) -> None:
        """Renew once an hour, because an entry advances log time by at most an hour."""
        for _ in range(hours):
            self.now_ms += HOUR
            self.fold(ev.GatewayRenewed(), writer=incarnation)

    def end(self, incarnation: int) -> None:
        self.fold(ev.GatewayExpired(incarnation), writer=incarnation)

    def set_default(self, node_id: str = "", **configs: str) -> None:
        texts = {key.replace("_", "."): text for key, text in configs.items()}
        self.fold(ev.ConfigsSet(4, node_id, texts))

    def settings(self, own: Own | None = None) -> TopicSettings:
        return ClusterSettings(self.state, own).of(self.state.topics.by_name["t"])


CAREFUL = [
    ("log.retention.ms", ["1000", "5000"], "retention_ms", 5000),
    ("log.retention.ms", ["1000", "-1"], "retention_ms", -1),
    ("log.retention.ms", ["-7", "1000"], "retention_ms", -1),
    ("log.retention.minutes", ["1", "2"], "retention_ms", 120_000),
    ("log.retention.hours", ["1", "2"], "retention_ms", 2 * HOUR),
    ("log.retention.bytes", ["10", "-1", "20"], "retention_bytes", -1),
    ("log.retention.bytes", ["10", "20"], "retention_bytes", 20),
    ("log.cleaner.min.compaction.lag.ms", ["5", "9", "1"], "min_compaction_lag_ms", 9),
    ("log.cleaner.max.compaction.lag.ms", ["5", "9", "1"], "max_compaction_lag_ms", 9),
    ("log.cleaner.delete.retention.ms", ["5", "9", "1"], "delete_retention_ms", 9),
    ("log.cleaner.min.cleanable.ratio", ["0.1", "0.9"], "min_cleanable_dirty_ratio", 0.9),
    ("log.segment.bytes", ["1048576", "2097152"], "segment_bytes", 2097152),
    ("log.cleanup.policy", ["compact", "delete"], "is_compacted", False),
    ("log.cleanup.policy", ["compact", "delete"], "is_deleted_by_policy", False),
    ("log.cleanup.policy", ["compact,delete", "delete"], "is_deleted_by_policy", True),
    ("log.cleanup.policy", ["compact,delete", "compact"], "is_deleted_by_policy", False),
    ("log.cleanup.policy", ["compact,delete", "compact"], "is_compacted", True),
    ("log.message.timestamp.type", ["LogAppendTime", "CreateTime"], "timestamp_type_is_append",
     False),
    ("log.message.timestamp.before.max.ms", ["1", "5"], "timestamp_before_max_ms", 5),
    ("log.message.timestamp.after.max.ms", ["1", "5"], "timestamp_after_max_ms", 5),
    ("message.max.bytes", ["100", "2000"], "max_message_bytes", 2000),
    ("compression.type", ["zstd", "producer"], "compression_type", "producer"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "texts", "field", "value"), CAREFUL)
@pytest.mark.parametrize("is_reversed", [False, True])
def test_the_careful_value_holds(
    name: str, texts: list[str], field: str, value: object, *, is_reversed: bool
) -> None:
    world = World()
    for node_id, text in enumerate(reversed(texts) if is_reversed else texts):
        world.begin(node_id, {name: text})
    for own in (None, Own(0, {name: texts[-1] if is_reversed else texts[0]})):
        assert getattr(world.settings(own), field) == value


def test_every_setting_of_topics_that_means_something_is_the_clusters() -> None:
    named = {name for name, *_ in CAREFUL}
    levels = {name for name in OF_TOPICS if name.endswith(".level")}  # they change no record
    assert set(OF_TOPICS) <= named | levels
    assert named <= CLUSTER_WIDE


def test_a_value_all_gateways_agree_on_holds_and_unset_means_the_default() -> None:
    world = World()
    for node_id in (1, 2):
        world.begin(node_id, BRIEF)
    assert world.settings().retention_ms == 1000
    world.begin(3, {})
    assert world.settings().retention_ms == 604_800_000


def test_dynamic_configs_come_first_for_all() -> None:
    world = World()
    world.begin(1, FOREVER)
    world.begin(2, BRIEF)
    world.set_default(log_retention_ms="77")
    assert world.settings().retention_ms == 77
    world.set_default("2", log_retention_ms="99")
    assert world.settings().retention_ms == 99
    world.fold(ev.ConfigsSet(2, "t", {"retention.ms": "5"}))
    assert world.settings().retention_ms == 5


@pytest.mark.parametrize("level", [1, SETTINGS_TOLD - 1, SETTINGS_TOLD])
def test_unknown_settings_remove_nothing(level: int) -> None:
    """The pipeline removes nothing.

    Below level SETTINGS_TOLD, a gateway uses its own settings.
    """
    world = World(level)
    for _ in range(2):
        settings = world.settings()
        assert not settings.is_compacted
        assert not settings.is_deleted_by_policy
        assert settings.retention_ms == settings.retention_bytes == -1
        assert settings.min_compaction_lag_ms == settings.delete_retention_ms == LONG_MAX
        assert settings.max_message_bytes == 1048588
        world.begin(1)
    other = world.settings(Own(2, BRIEF))
    assert other.retention_ms == (1000 if level < SETTINGS_TOLD else -1)


def test_a_dynamic_config_holds_even_if_static_ones_are_unknown() -> None:
    world = World(1)
    world.set_default(
        log_retention_ms="5", log_cleanup_policy="compact", log_cleaner_min_compaction_lag_ms="6"
    )
    settings = world.settings()
    assert (settings.retention_ms, settings.min_compaction_lag_ms) == (5, 6)
    assert settings.is_compacted
    assert settings.delete_retention_ms == LONG_MAX
    assert ClusterSettings(world.state).unknown == [NO_GATEWAY]


def test_settings_are_not_written_below_the_level_nor_twice_nor_by_ended_gateways() -> None:
    world = World(SETTINGS_TOLD - 1)
    one = world.begin(1)
    assert ClusterSettings(world.state, Own(1, BRIEF)).to_tell(one) is None
    assert world.tell(one, BRIEF) == 0
    world.fold(ev.MetadataVersionSet(SETTINGS_TOLD))
    assert ClusterSettings(world.state, Own(1, BRIEF)).to_tell(one) == TellSettings(one, BRIEF)
    assert world.tell(one, BRIEF) == 1
    assert ClusterSettings(world.state, Own(1, BRIEF)).to_tell(one) is None
    assert world.tell(one, BRIEF) == 0
    world.end(one)
    assert not TellSettings(one, {}).decide(world.view(one)).events


def test_a_driver_of_the_pipeline_has_nothing_to_tell() -> None:
    world = World()
    driver = world.begin(-5, BRIEF)
    assert not world.state.static_settings.by_node_id
    world.begin(1, {})
    world.end(driver)
    assert world.settings().retention_ms == 604_800_000


def test_settings_of_a_peer_are_filtered() -> None:
    """Forwarding can deliver any bytes, so the rule drops settings that are not cluster-wide."""
    world = World()
    one = world.begin(1)
    static = {"log.retention.ms": "soon", "peer.token": "secret", "message.max.bytes": " 7 "}
    world.tell(one, static)
    assert world.state.static_settings.by_node_id[1].settings == {"message.max.bytes": "7"}


def test_only_settings_of_the_cluster_are_written() -> None:
    assert clusters_own({"log.retention.hours": "5", "listeners": "X://:1", "node.id": "3"}) == {
        "log.retention.hours": "5"
    }


def test_gateways_that_ended_still_count() -> None:
    world = World()
    careful, brief = world.begin(1, FOREVER), world.begin(2, BRIEF)
    world.end(careful)
    assert world.settings().retention_ms == -1
    world.end(brief)
    assert world.settings().retention_ms == -1
    again = ClusterState.decode(world.state.encode())
    assert ClusterSettings(again).of(again.topics.by_name["t"]).retention_ms == -1
    assert again.encode() == world.state.encode()


def test_settings_after_a_restart_replace_the_earlier_ones() -> None:
    """The earlier settings hold until the new incarnation writes its own."""
    world = World()
    world.begin(1, FOREVER)
    later = world.begin(1)
    assert world.settings().retention_ms == -1
    world.tell(later, BRIEF)
    assert world.settings().retention_ms == 1000


def test_a_gateway_that_ended_long_ago_is_forgotten_once_another_tells_its_own() -> None:
    world = World()
    careful, brief = world.begin(1, FOREVER), world.begin(2, BRIEF)
    world.end(careful)
    world.pass_hours(brief, KEPT_MS // HOUR - 1)
    assert world.tell(brief, BRIEF) == 0
    world.pass_hours(brief, 3)
    assert world.settings().retention_ms == -1
    assert ClusterSettings(world.state, Own(2, BRIEF)).to_tell(brief) is not None
    assert world.tell(brief, BRIEF) == 1
    assert world.settings().retention_ms == 1000


@pytest.mark.parametrize("crash", [False, True])
def test_time_with_only_a_pipeline_removes_no_settings(*, crash: bool) -> None:
    """If all gateways crash, log time stands still, because the driver's clock does not count."""
    world = World()
    careful, brief, driver = world.begin(1, FOREVER), world.begin(2, {}), world.begin(-5)
    third = world.begin(3, {})
    world.end(careful)
    if not crash:
        world.end(brief)
        world.end(third)
    world.pass_hours(driver, KEPT_MS // HOUR + 24)
    brief = world.begin(2)
    if crash:
        world.end(third)
    assert world.tell(brief, {}) == 0
    assert world.settings(Own(2, {})).retention_ms == -1
    world.pass_hours(brief, KEPT_MS // HOUR - 1)
    assert world.tell(brief, {}) == 0
    again = ClusterState.decode(world.state.encode())
    assert again.encode() == world.state.encode()
    world.pass_hours(brief, 3)
    world.tell(brief, {})
    assert world.settings(Own(2, {})).retention_ms == 604_800_000


def test_a_lone_gateway_that_starts_daily_removes_settings_of_gone_gateways() -> None:
    """The time between two incarnations of the gateway does not count; all other time does."""
    world = World()
    world.end(world.begin(1, FOREVER))
    for day in range(9):
        assert (world.settings().retention_ms == -1) == (day < 8)
        brief = world.begin(2, BRIEF)
        world.pass_hours(brief, 24)
        world.tell(brief, BRIEF)
        world.end(brief)


def test_no_settings_are_removed_while_log_time_waits_for_an_operator() -> None:
    world = World()
    careful, brief = world.begin(1, FOREVER), world.begin(2, BRIEF)
    world.end(careful)
    world.pass_hours(brief, KEPT_MS // HOUR + 3)
    world.state.expiry_resumes_at_ms = world.now_ms + HOUR
    assert world.tell(brief, BRIEF) == 0


def test_gateways_of_a_log_that_was_restored_still_count() -> None:
    world = World()
    world.begin(1, FOREVER)
    world.fold(rev.TimelineOpened(2, 50, 0, "r"))
    assert world.settings().retention_ms == -1
    world.begin(2, BRIEF)
    assert world.settings().retention_ms == -1


def test_gateways_that_ended_are_bounded() -> None:
    world = World()
    for node_id in range(MAX_ENDED + 5):
        world.end(world.begin(node_id, BRIEF))
        world.now_ms += 1
    assert len(world.state.static_settings.by_node_id) == MAX_ENDED


def test_disagreement_is_logged_once() -> None:
    world = World()
    world.begin(1, FOREVER | {"log.retention.hours": "3"})
    world.begin(2, BRIEF | {"offsets.retention.minutes": "60"})
    one = ClusterSettings(world.state, Own(1, FOREVER))
    with capture_logs() as logs:
        found = one.disagreements
        world.begin(3, FOREVER)
        assert len(one.disagreements) == 2
        world.fold(ev.GatewayRenewed())
        assert one.disagreements
    assert found == [
        Disagreement("log.retention.ms", {1: "-1", 2: "1000"}, "-1"),
        Disagreement("offsets.retention.minutes", {1: "10080", 2: "60"}, "10080"),
    ]
    told = [each for each in logs if each["setting"] == "log.retention.ms"]
    assert [each["gateways"] for each in told] == [
        {"1": "-1", "2": "1000"},
        {"1": "-1", "2": "1000", "3": "-1"},
    ]


def test_the_effective_value_and_its_source_are_shown() -> None:
    world = World()
    world.begin(1, FOREVER)
    world.begin(2, BRIEF)
    two = ClusterSettings(world.state, Own(2, BRIEF))
    shown = two.topic_config({}, "retention.ms")
    assert (shown.value, shown.source) == ("-1", Source.STATIC_BROKER)
    assert two.topic_config({"retention.ms": "5"}, "retention.ms").value == "5"
    assert two.broker_config("log.retention.ms").value == "-1"
    assert two.broker_config("log.retention.ms").source is Source.STATIC_BROKER
    assert two.broker_config("log.segment.bytes").value == "1073741824"
    assert two.topic_config({}, "flush.ms").value == str(LONG_MAX)


def test_the_gateways_own_value_is_shown_if_it_is_as_careful() -> None:
    world = World()
    world.begin(1, {"log.retention.hours": "168"})
    world.begin(2, {})
    two = ClusterSettings(world.state, Own(2, {}))
    shown = two.topic_config({}, "retention.ms")
    assert (shown.value, shown.source) == ("604800000", Source.DEFAULT)
    assert not two.disagreements


def test_times_of_the_cluster() -> None:
    world = World()
    world.begin(1, {"producer.id.expiration.ms": "5000", "object.delete.grace.ms": "900000"})
    world.begin(2, {"producer.id.expiration.ms": "6000", "object.delete.grace.ms": "1"})
    world.begin(3)
    two = ClusterSettings(world.state, Own(2, {}))
    assert two.time("producer.id.expiration.ms") == 86_400_000
    assert two.time("object.delete.grace.ms") == 900_000
    pipeline = ClusterSettings(world.state)
    assert pipeline.time("producer.id.expiration.ms") == 6000
    assert pipeline.unknown == [3]


def test_the_longest_transaction_is_the_clusters() -> None:
    world = World()
    world.begin(1, {"transaction.max.timeout.ms": "5000"})
    world.begin(2, {"transaction.max.timeout.ms": "6000"})
    for node_id, own in ((1, "5000"), (2, "6000")):
        settings = ClusterSettings(world.state, Own(node_id, {"transaction.max.timeout.ms": own}))
        assert settings.time("transaction.max.timeout.ms") == 6000


def test_an_invalid_value_of_all_gateways_is_replaced_by_the_careful_one() -> None:
    world = World()
    world.begin(1, BRIEF)
    world.set_default(log_retention_ms="soon", offsets_retention_minutes="never")
    with capture_logs():
        assert world.settings(Own(1, BRIEF)).retention_ms == -1
        one = ClusterSettings(world.state, Own(1, BRIEF))
        assert one.time("offsets.retention.minutes") == 10080
