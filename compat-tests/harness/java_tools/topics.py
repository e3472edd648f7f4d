"""Calls about topics, their configs, records and offsets."""

from __future__ import annotations

from harness.java_tools.script import Call, Step, View

TOPICS: list[Step] = [
    Call("topics", "--list", label="--list (empty)"),
    Call("topics", "--create --topic jt-a --partitions 4 --config retention.ms=3600000"),
    Call("topics", "--create --topic jt-one --partitions 1 --replication-factor 1"),
    Call("topics", "--create --topic jt-default"),
    Call("topics", "--create --topic jt-a", label="--create existing"),
    Call("topics", "--create --topic jt-a --if-not-exists"),
    Call("topics", "--create --topic 'bad name'"),
    Call("topics", "--create --topic .."),
    Call("topics", f"--create --topic {'n' * 250}", label="--create with 250 letters"),
    Call("topics", "--create --topic jt.dot"),
    Call("topics", "--create --topic jt_dot"),
    Call("topics", "--create --topic jt-zero --partitions 0"),
    Call("topics", "--create --topic jt-three --replication-factor 3"),
    Call("topics", "--delete --topic jt-three --if-exists"),
    Call("topics", "--create --topic jt-unknown --config no.such.config=1"),
    Call("topics", "--create --topic jt-bad --config retention.ms=soon"),
    Call("topics", "--create --topic jt-bad --config cleanup.policy=burn"),
    Call("topics", "--create --topic jt-assigned --replica-assignment 1,1"),
    Call("topics", "--list", view="sorted"),
    Call("topics", "--list --topic jt-.*", view="sorted"),
    Call("topics", "--list --exclude-internal", view="sorted"),
    Call("topics", "--describe --topic jt-a"),
    Call("topics", "--describe --topic jt-default"),
    Call("topics", "--describe --topic jt-missing"),
    Call("topics", "--describe --topic jt-missing --if-exists"),
    Call("topics", "--describe --topic jt-(a|one)", view="sorted"),
    Call("topics", "--describe --topics-with-overrides", view="sorted", keep="jt-"),
    Call("topics", "--describe --under-replicated-partitions"),
    Call("topics", "--describe --unavailable-partitions"),
    Call("topics", "--alter --topic jt-a --partitions 6"),
    Call("topics", "--describe --topic jt-a", label="--describe after --alter"),
    Call("topics", "--alter --topic jt-a --partitions 2"),
    Call("topics", "--alter --topic jt-a --partitions 6", label="--alter to the same"),
    Call("topics", "--alter --topic jt-missing --partitions 3"),
    Call("topics", "--delete --topic jt-assigned"),
    Call("topics", "--delete --topic jt-assigned", label="--delete again"),
    Call("topics", "--delete --topic jt-assigned --if-exists"),
    Call("topics", "--describe --topic jt-assigned"),
    Call("topics", "--create --topic jt-assigned --partitions 2", label="--create again"),
]

BROKER_CONFIGS = (
    "^(auto.create.topics.enable|compression.type|default.replication.factor|"
    "group.max.session.timeout.ms|group.min.session.timeout.ms|log.retention.ms|"
    "message.max.bytes|num.partitions|offsets.retention.minutes)="
)

CONFIGS: list[Step] = [
    Call("configs", "--describe --entity-type topics --entity-name jt-a"),
    Call("configs", "--describe --topic jt-one"),
    Call("configs", "--describe --topic jt-a --all", view="sorted"),
    Call("configs", "--alter --topic jt-a --add-config max.message.bytes=200000,retention.ms=-1"),
    Call("configs", "--describe --topic jt-a", label="--describe after --alter", view="sorted"),
    Call("configs", "--alter --topic jt-a --add-config cleanup.policy=[compact,delete]"),
    Call("configs", "--alter --topic jt-a --add-config no.such.config=1"),
    Call("configs", "--alter --topic jt-a --add-config max.message.bytes=big"),
    Call("configs", "--alter --topic jt-a --add-config max.message.bytes=-5"),
    Call("configs", "--alter --topic jt-a --add-config compression.type=brick"),
    Call("configs", "--alter --topic jt-a --delete-config max.message.bytes"),
    Call("configs", "--alter --topic jt-a --delete-config max.message.bytes", label="delete again"),
    Call("configs", "--alter --topic jt-a --delete-config no.such.config"),
    Call("configs", "--alter --topic jt-a --add-config cleanup.policy=delete"),
    Call("configs", "--describe --topic jt-a", label="--describe at the end", view="sorted"),
    Call("configs", "--describe --topic jt-missing"),
    Call("configs", "--alter --topic jt-missing --add-config retention.ms=1"),
    Call("configs", "--describe --broker 1"),
    Call("configs", "--describe --broker 1 --all", view="sorted", keep=BROKER_CONFIGS),
    Call("configs", "--describe --broker 77"),
    Call("configs", "--describe --broker-defaults"),
    Call("configs", "--alter --broker-defaults --add-config message.max.bytes=2000000"),
    Call(
        "configs",
        "--describe --broker-defaults",
        until="message.max.bytes",
        label="--broker-defaults after --alter",
    ),
    Call("configs", "--alter --broker-defaults --delete-config message.max.bytes"),
    Call("configs", "--alter --broker 1 --add-config node.id=9"),
    Call("configs", "--describe --client jt-client"),
]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SHOW = (
    "--timeout-ms 20000 --formatter-property print.key=true --formatter-property print.offset=true "
    "--formatter-property print.partition=true --formatter-property print.timestamp=true "
    "--formatter-property print.headers=true"
)
KEYED = (
    "--reader-property parse.key=true --reader-property key.separator=: "
    "--reader-property parse.headers=true --reader-property headers.delimiter=|"
)

CONSOLE: list[Step] = [
    *(
        Call(
            "console-producer",
            f"--topic jt-one --compression-codec {codec} {KEYED}",
            stdin=f"h:{codec}|k1:{codec} one\nh:{codec}|k2:{codec} two\n",
            label=f"with {codec}",
        )
        for codec in CODECS
    ),
    *(
        Call(
            "console-producer",
            f"--topic jt-one --sync --request-required-acks {acks} "
            "--command-property enable.idempotence=false",
            stdin=f"acks {acks}\n",
            label=f"with acks={acks}",
        )
        for acks in ("1", "all")
    ),
    Call(
        "console-consumer",
        f"--topic jt-one --from-beginning --max-messages 12 {SHOW}",
        label="from the beginning",
    ),
    Call("console-consumer", f"--topic jt-one --partition 0 --offset 3 --max-messages 2 {SHOW}"),
    Call("console-consumer", "--topic jt-one --partition 0 --offset latest --timeout-ms 2000"),
    Call(
        "console-consumer",
        "--include jt-on. --from-beginning --max-messages 3 --timeout-ms 20000",
    ),
    Call(
        "console-consumer",
        "--topic jt-one --from-beginning --isolation-level read_committed --max-messages 12 "
        "--timeout-ms 20000",
        label="read_committed",
    ),
    Call(
        "console-consumer",
        "--topic jt-one --group jt-g --from-beginning --max-messages 5 --timeout-ms 20000",
        label="group, first five",
    ),
    Call(
        "console-consumer",
        "--topic jt-one --group jt-g --max-messages 3 --timeout-ms 20000",
        label="group, next three",
    ),
    Call("console-producer", "--topic jt-auto", stdin="made by use\n", label="to a new topic"),
    Call("topics", "--describe --topic jt-auto"),
]

OFFSETS: list[Step] = [
    *(Call("get-offsets", f"--topic jt-one --time {time}") for time in (-1, -2, -3, -4)),
    Call("get-offsets", "--topic jt-one --time latest"),
    Call("get-offsets", "--topic jt-one --time 1600000000000", label="--time long ago"),
    Call("get-offsets", "--topic jt-one --time 9999999999999", label="--time far ahead"),
    Call("get-offsets", "--topic jt-one --time -9"),
    Call("get-offsets", "--topic jt-a --partitions 0,3"),
    Call("get-offsets", "--topic-partitions jt-a:1-3,jt-one:0"),
    Call("get-offsets", "--topic jt-missing"),
    Call("get-offsets", "--topic jt-one --partitions 5"),
    Call("get-offsets", "--exclude-internal-topics", keep="^jt-(a|one|default|assigned):"),
]


def _records(topic: str, partition: int, offset: int) -> str:
    return (
        f'{{"version": 1, "partitions": '
        f'[{{"topic": "{topic}", "partition": {partition}, "offset": {offset}}}]}}'
    )


def _delete(label: str, topic: str, partition: int, offset: int) -> Call:
    words = "--offset-json-file {FILE} --command-config {HASTY}"
    records = _records(topic, partition, offset)
    view: View = "timeouts" if "missing" in label else "lines"
    return Call("delete-records", words, file=records, view=view, label=label)


DELETE_RECORDS: list[Step] = [
    _delete("below 2", "jt-one", 0, 2),
    Call("get-offsets", "--topic jt-one --time -2", label="--time -2 after delete-records"),
    _delete("below 2 again", "jt-one", 0, 2),
    _delete("below 1", "jt-one", 0, 1),
    _delete("beyond the end", "jt-one", 0, 1000),
    _delete("of a missing topic", "jt-missing", 0, 1),
    _delete("of a missing partition", "jt-one", 7, 1),
    Call(
        "console-consumer",
        f"--topic jt-one --from-beginning --max-messages 1 {SHOW}",
        label="after delete-records",
    ),
    _delete("all", "jt-default", 0, -1),
    Call("get-offsets", "--topic jt-default --time -2"),
]
