"""The dashboards and their panels.

A panel is (title, unit, {legend: query}, text).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from queries import (
    MINE,
    OF_GROUP,
    OF_TOPIC,
    WINDOW,
    mean,
    mine,
    most,
    of_cluster,
    quantile,
    quantiles,
    rate,
    summed,
    total,
)


class Panel(NamedTuple):
    """unit: one of Grafana's.  queries: by their legends."""

    title: str
    unit: str
    queries: Mapping[str, str]
    text: str = ""


class Variable(NamedTuple):
    """A choice above the panels, among the values of a metric's label."""

    name: str
    metric: str


class Dashboard(NamedTuple):
    """name: of its file, and its uid."""

    name: str
    title: str
    variables: tuple[Variable, ...]
    panels: tuple[Panel, ...]


BROKER_TOPIC: Final = "kafka_server_brokertopicmetrics"
WHOLE: Final = f'{MINE}, topic=""'
BY_INSTANCE: Final = "{{instance}}"
BY_TOPIC: Final = "{{topic}}"

OVERVIEW: Final = (
    Panel(
        "Gateways",
        "short",
        {
            "ready": summed("tidegate_ready"),
            "live": most("kafka_controller_kafkacontroller_activebrokercount"),
            "draining": summed("tidegate_draining"),
            "cut off": summed("tidegate_cut_off"),
            "cut off from the store": summed("tidegate_store_cut_off"),
            "controllers": summed("kafka_controller_kafkacontroller_activecontrollercount"),
        },
        "Controllers: gateways that show the facts of the cluster; it must be 1.",
    ),
    Panel(
        "Requests by API",
        "reqps",
        {"{{request}}": rate("kafka_network_requestmetrics_requests_total", "request")},
    ),
    Panel(
        "Errors in answers",
        "ops",
        {"{{error}}": rate("kafka_network_requestmetrics_errors_total", "error")},
    ),
    Panel("Bytes in", "Bps", {BY_INSTANCE: rate(f"{BROKER_TOPIC}_bytesin_total", labels=WHOLE)}),
    Panel("Bytes out", "Bps", {BY_INSTANCE: rate(f"{BROKER_TOPIC}_bytesout_total", labels=WHOLE)}),
    Panel(
        "Records in", "short", {BY_INSTANCE: rate(f"{BROKER_TOPIC}_messagesin_total", labels=WHOLE)}
    ),
    Panel("Latency of Produce", "s", quantiles("tidegate_produce_seconds")),
    Panel(
        "Stages of Produce",
        "s",
        {
            stage: mean(f"tidegate_produce_{stage}_seconds")
            for stage in ("queue", "seal", "upload", "commit")
        },
        "Means. Their sum is about the latency of the first request in an object.",
    ),
    Panel(
        "Latency of Fetch",
        "s",
        quantiles("tidegate_fetch_seconds")
        | {"wait for records, p50": quantile(0.5, "tidegate_fetch_wait_seconds")},
    ),
    Panel(
        "Event loop: time without work",
        "percentunit",
        {BY_INSTANCE: mine("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent")},
    ),
    Panel("Event loop: delay of tasks", "s", quantiles("tidegate_loop_delay_seconds")),
    Panel(
        "Requests that wait",
        "short",
        {
            "{{delayedOperation}}": summed(
                "kafka_server_delayedoperationpurgatory_purgatorysize", "delayedOperation"
            )
        },
    ),
    Panel(
        "Connections",
        "short",
        {"{{listener}}": summed("kafka_server_socket_server_metrics_connection_count", "listener")},
    ),
    Panel(
        "Clients by software",
        "short",
        {
            "{{clientSoftwareName}} {{clientSoftwareVersion}}": summed(
                "kafka_server_socket_server_metrics_connections_software",
                "clientSoftwareName, clientSoftwareVersion",
            )
        },
    ),
    Panel(
        "Bytes across zones",
        "Bps",
        {"{{direction}}, {{zone}}": rate("tidegate_zone_bytes_total", "direction, zone")},
    ),
    Panel("CPU", "percentunit", {BY_INSTANCE: rate("process_cpu_seconds_total")}),
    Panel("Memory", "bytes", {BY_INSTANCE: mine("process_resident_memory_bytes")}),
    Panel("Appends to the metadata log", "s", quantiles("tidegate_log_append_seconds")),
    Panel(
        "Position in the metadata log",
        "short",
        {BY_INSTANCE: mine("tidegate_log_position")},
        "Nearly the same at all gateways.",
    ),
    Panel("Age of the backup", "s", {"age": f"time() - {most('tidegate_backup_time_seconds')}"}),
    Panel(
        "Transactions",
        "short",
        {
            "open": most("tidegate_transactions_open"),
            "partitions with a late one": most(
                "kafka_server_replicamanager_partitionswithlatetransactionscount"
            ),
        },
    ),
)

TOPICS: Final = (
    Panel("Bytes in", "Bps", {BY_TOPIC: rate(f"{BROKER_TOPIC}_bytesin_total", "topic", OF_TOPIC)}),
    Panel(
        "Bytes out", "Bps", {BY_TOPIC: rate(f"{BROKER_TOPIC}_bytesout_total", "topic", OF_TOPIC)}
    ),
    Panel(
        "Records in",
        "short",
        {BY_TOPIC: rate(f"{BROKER_TOPIC}_messagesin_total", "topic", OF_TOPIC)},
    ),
    Panel(
        "Batches produced",
        "ops",
        {BY_TOPIC: rate(f"{BROKER_TOPIC}_totalproducerequests_total", "topic", OF_TOPIC)},
    ),
    Panel(
        "Partitions fetched with records",
        "ops",
        {BY_TOPIC: rate(f"{BROKER_TOPIC}_totalfetchrequests_total", "topic", OF_TOPIC)},
    ),
    Panel(
        "Failed",
        "ops",
        {
            "Produce {{topic}}": rate(
                f"{BROKER_TOPIC}_failedproducerequests_total", "topic", OF_TOPIC
            ),
            "Fetch {{topic}}": rate(f"{BROKER_TOPIC}_failedfetchrequests_total", "topic", OF_TOPIC),
        },
    ),
    Panel(
        "Size",
        "bytes",
        {
            BY_TOPIC: "sum by (topic) ("
            f"{of_cluster('kafka_log_log_size', 'topic, partition', OF_TOPIC)})"
        },
    ),
    Panel(
        "Offsets that are kept",
        "short",
        {
            BY_TOPIC: "sum by (topic) ("
            f"{of_cluster('kafka_log_log_logendoffset', 'topic, partition', OF_TOPIC)} - "
            f"{of_cluster('kafka_log_log_logstartoffset', 'topic, partition', OF_TOPIC)})"
        },
    ),
    Panel(
        "Partitions", "short", {BY_TOPIC: of_cluster("kafka_topic_partitions", "topic", OF_TOPIC)}
    ),
    Panel(
        "In series of their own",
        "short",
        {
            "topics": most("kafka_controller_kafkacontroller_globaltopiccount"),
            "partitions": most("kafka_controller_kafkacontroller_globalpartitioncount"),
            "topics summed as _other": most("tidegate_topics_without_series"),
            "partitions summed as _other": most("tidegate_partitions_without_series"),
        },
    ),
)

GROUPS: Final = (
    Panel(
        "Lag in seconds",
        "s",
        {
            "{{consumergroup}} {{topic}}": of_cluster(
                "tidegate_group_lag_seconds", "consumergroup, topic", OF_GROUP
            )
        },
        "Age of the first records that a group has not read.",
    ),
    Panel(
        "Lag in records",
        "short",
        {
            "{{consumergroup}} {{topic}}": of_cluster(
                "kafka_consumergroup_lag_sum", "consumergroup, topic", OF_GROUP
            )
        },
    ),
    Panel(
        "Retention used",
        "percentunit",
        {
            "{{consumergroup}} {{topic}}": of_cluster(
                "tidegate_group_retention_used_ratio", "consumergroup, topic", OF_GROUP
            )
        },
        "At 100 %, retention deletes records that the group has not read.",
    ),
    Panel(
        "Partitions with the most lag",
        "short",
        {
            "{{consumergroup}} {{topic}} {{partition}}": "topk(20, "
            + of_cluster("kafka_consumergroup_lag", "consumergroup, topic, partition", OF_GROUP)
            + ")"
        },
    ),
    Panel(
        "Members",
        "short",
        {"{{consumergroup}}": of_cluster("kafka_consumergroup_members", "consumergroup", OF_GROUP)},
    ),
    Panel(
        "Offsets committed in a second",
        "short",
        {
            "{{consumergroup}} {{topic}}": "sum by (consumergroup, topic) (deriv("
            + of_cluster(
                "kafka_consumergroup_current_offset", "consumergroup, topic, partition", OF_GROUP
            )
            + f"[{WINDOW}:]))"
        },
    ),
    Panel("Groups", "short", {"groups": most("kafka_server_groupmetadatamanager_numgroups")}),
)

STORE: Final = (
    Panel(
        "Objects stored",
        "ops",
        {
            BY_INSTANCE: rate("tidegate_wal_objects_total"),
            "repeated PUTs, {{instance}}": rate("tidegate_wal_put_retries_total"),
        },
    ),
    Panel("Duration of a PUT", "s", quantiles("tidegate_store_put_seconds")),
    Panel(
        "Size of an object",
        "bytes",
        {"mean": f"{total('tidegate_wal_bytes_total')} / {total('tidegate_wal_objects_total')}"},
    ),
    Panel(
        "Batches in an object",
        "short",
        {"mean": f"{total('tidegate_wal_batches_total')} / {total('tidegate_wal_objects_total')}"},
    ),
    Panel(
        "PUTs for each GiB that producers write",
        "short",
        {
            "PUTs": f"{total('tidegate_wal_objects_total')} * 1073741824 / "
            f"sum(rate({BROKER_TOPIC}_bytesin_total{{{WHOLE}}}[{WINDOW}]))"
        },
    ),
    Panel(
        "Since the last object",
        "s",
        {
            "stored, {{instance}}": mine("tidegate_wal_put_age_seconds"),
            "committed, {{instance}}": mine("tidegate_wal_commit_age_seconds"),
        },
    ),
    Panel(
        "Range reads",
        "ops",
        {
            BY_INSTANCE: rate("tidegate_store_gets_total"),
            "failed, {{instance}}": rate("tidegate_store_failed_gets_total"),
        },
    ),
    Panel("Duration of a range read", "s", quantiles("tidegate_store_get_seconds")),
    Panel("Bytes of range reads", "Bps", {BY_INSTANCE: rate("tidegate_store_get_bytes_total")}),
    Panel(
        "Objects",
        "short",
        {
            "wait for the pipeline": (
                f"max({mine('tidegate_objects')} - {mine('tidegate_segments')})"
            ),
            "segments": most("tidegate_segments"),
            "wait for their deletion": most("tidegate_dead_objects"),
        },
    ),
    Panel("Objects deleted", "ops", {BY_INSTANCE: rate("tidegate_collected_objects_total")}),
    Panel(
        "Memory for reads",
        "bytes",
        {
            "objects, {{instance}}": mine("tidegate_cache_used_bytes"),
            "answers, {{instance}}": mine("tidegate_reply_bytes"),
        },
    ),
    Panel(
        "Disk cache: parts of segments",
        "ops",
        {
            "on disk, {{instance}}": rate("tidegate_disk_cache_hits_total"),
            "not there, {{instance}}": rate("tidegate_disk_cache_misses_total"),
            "failures, {{instance}}": rate("tidegate_disk_cache_failures_total"),
        },
        "Only gateways with disk.cache.dir have it.",
    ),
    Panel("Disk cache: size", "bytes", {BY_INSTANCE: mine("tidegate_disk_cache_used_bytes")}),
)

DASHBOARDS: Final = (
    Dashboard("tidegate-overview", "Tidegate: overview", (), OVERVIEW),
    Dashboard(
        "tidegate-topics",
        "Tidegate: topics",
        (Variable("topic", "kafka_topic_partitions"),),
        TOPICS,
    ),
    Dashboard(
        "tidegate-groups",
        "Tidegate: groups",
        (Variable("consumergroup", "kafka_consumergroup_members"),),
        GROUPS,
    ),
    Dashboard("tidegate-store", "Tidegate: requests to the store", (), STORE),
)
