"""The programs, one row each.

A module is loaded only when its program runs, since each program needs other packages.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple, get_type_hints

from runner.result import Result


class Program(NamedTuple):
    """A name for the command line, a function, and a line of help.

    place: MODULE:FUNCTION.  The function takes one argument, whose class declares the options, and
    returns the result.
    """

    name: str
    place: str
    says: str

    def loaded(self) -> tuple[Callable[[Any], Result], type]:
        """The function, and the class of its options."""
        module, _, name = self.place.partition(":")
        function: Callable[[Any], Result] = getattr(import_module(module), name)
        hints = get_type_hints(function)
        del hints["return"]
        [options] = hints.values()
        return function, options


PROGRAMS: Final = (
    Program("all", "suites.published:everything", "all published suites and clients"),
    Program("java-tools", "suites.published:java_tools", "Kafka's tools print the same"),
    Program(
        "java-tools-record", "suites.published:record_java_tools", "record what they print of Kafka"
    ),
    Program("franz-go", "suites.published:franz_go", "franz-go's own tests"),
    Program("kafka-python", "suites.published:kafka_python", "kafka-python's own tests"),
    Program(
        "kafka-python-logins", "suites.published:kafka_python_logins", "its own tests of logins"
    ),
    Program("kafka-go", "suites.published:kafka_go", "kafka-go's own tests"),
    Program("librdkafka", "suites.published:librdkafka", "librdkafka's own tests"),
    Program(
        "librdkafka-noautocreate",
        "suites.published:librdkafka_noautocreate",
        "those for brokers that create no topics",
    ),
    Program("librdkafka-sasl", "suites.published:librdkafka_sasl", "its own tests of logins"),
    Program("kcat", "suites.published:kcat", "round trip of kcat"),
    Program("kafkajs", "suites.published:kafkajs", "round trip of KafkaJS"),
    Program("kafka-go-client", "suites.published:kafka_go_client", "round trip of kafka-go"),
    Program("kgo-client", "suites.published:kgo_client", "round trip of franz-go"),
    Program(
        "kafka-python-2.0.2", "suites.published:kafka_python_2_0_2", "round trip of an old release"
    ),
    Program(
        "kafka-python-1.4.7", "suites.published:kafka_python_1_4_7", "round trip of an old release"
    ),
    # Promises under faults.
    Program("crash", "crash.run:main", "kill -9 of a gateway under load, many times"),
    Program("faults", "faults.run:main", "three zones under load, while everything fails"),
    Program("refused", "faults.refused:main", "the store refuses one of two gateways"),
    Program("copies", "exactly_once.copy_run:main", "transactional copiers under kill -9"),
    Program("streams", "exactly_once.streams_run:main", "Kafka Streams with exactly_once_v2, hurt"),
    Program("histories", "histories.run:main", "histories of transactions under faults"),
    Program("restore", "restore.run:main", "the log is lost and restored under transactions"),
    Program("late", "late.run:main", "administrative requests that act late"),
    Program("pipeline", "pipeline.run:main", "3 GB through a gateway while the pipeline merges"),
    Program("pipeline-faults", "pipeline.faults:main", "faults with real Spark"),
    # Work of operators.
    Program("image", "image.run:main", "the image, a cluster of containers, and the unit"),
    Program("newcomer", "newcomer.run:main", "a new operator types the commands of a page"),
    Program("upgrade", "upgrade.run:main", "a rolling upgrade under load"),
    Program("alerts", "monitoring.fire:main", "alerts fire and clear in a real Prometheus"),
    Program("zones", "zones.run:main", "three zones: no byte of a client crosses them"),
    # What a load or strangers cost other clients.
    Program("strangers", "strangers.run:main", "silent and dripping strangers at each listener"),
    Program("dear-requests", "dear_requests.run:main", "the dearest requests of a client"),
    Program("dear-tables", "dear_requests.tables:main", "requests that list a million rows"),
    Program("overload", "overload.run:main", "clients offer more than a gateway can take"),
    Program("restart", "overload.restart:main", "from kill -9 to serving with much state"),
    Program("tls-bench", "tls.bench:main", "CPU for each MiB, with and without TLS"),
    Program("tls-flood", "tls.flood:main", "a good client beside strangers' handshakes"),
    # Answers compared with Apache Kafka's.
    Program("transactions", "transactions.differential.run:main", "random scripts beside Kafka"),
    Program("mutated-batches", "mutated_batches.run:main", "2,000 false batches beside Kafka"),
    Program("mutated-batches-record", "mutated_batches.record:main", "record Kafka's answers"),
    Program("compaction", "compaction.oracle:main", "compaction beside Kafka's log cleaner"),
    Program(
        "compaction-transactions",
        "compaction.transactions:main",
        "transactions in merged and compacted topics beside Kafka",
    ),
    Program("quotas", "quotas.run:main", "five kinds of quotas beside Kafka"),
    Program("quotas-shared", "quotas.shared:main", "three gateways under one shared quota"),
    # Logins and rights.
    Program("logins", "logins.run:main", "seven client libraries with each way to log in"),
    Program("acls", "acls.run:main", "the ACL matrix beside Kafka"),
    Program("acls-record", "acls.record:main", "record a tenth of it"),
    Program("authorizer", "authorizer.run:main", "random ACLs and questions beside Kafka"),
    Program("authorizer-apis", "authorizer.apis:main", "the three APIs of ACLs beside Kafka"),
    Program("authentications-record", "authentications.record:main", "record Kafka's answers"),
    Program("delegation-tokens-record", "delegation_tokens.record:main", "record Kafka's answers"),
    Program("tls-names", "tls.random_names:main", "names of certificates beside Java"),
    Program("tls-names-record", "tls.random_names:record", "record Java's names"),
    Program("tls-rules-record", "tls.rule_cases:main", "record Kafka's mapping of names"),
    # Links to a classic cluster.
    Program("mirror", "migration.mirror:main", "topics of Kafka, mirrored under kill -9"),
    Program("importing", "migration.importing:main", "topics of Kafka, imported under kill -9"),
    Program("forward", "migration.forward:main", "writes forwarded to Kafka under kill -9"),
    Program("link-tools", "migration.tools:main", "Kafka's tools through a gateway that forwards"),
    Program("carried-rights", "migration.carried_rights:main", "ACLs, quotas and users of Kafka"),
    Program("switch", "migration.moving.switch:main", "topics are switched from Kafka under load"),
    Program("moving-groups", "migration.moving.moving_groups:main", "groups move while they read"),
    Program("moving-units", "migration.moving.moving_units:main", "transactional copiers move"),
    Program(
        "moving-streams", "migration.moving.moving_streams:main", "a Streams application moves"
    ),
    Program("writing-back", "migration.rates.writing_back:main", "how fast records go back"),
    Program("many-partitions", "migration.rates.many_partitions:main", "a link with very many"),
    Program("mirror-maker", "migration.rates.mirror_maker:main", "a backlog copied in three ways"),
    Program("import-rate", "migration.rates.import_rate:main", "the rate of an import"),
)
