"""Take the facts of Kafka's message definitions out of a kafka-clients jar.

    python protocol/extract.py kafka-clients-4.3.1.jar

Writes ``protocol/schema/``: one file per API in the notation that ``codegen/schema.py`` describes.
Only facts are taken (names, types, versions, defaults, tags), no text.  Run it when the pinned
release changes, then run ``generate.py``.
"""

from __future__ import annotations

import argparse
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).parent / "schema"

APIS = """
    Produce Fetch ListOffsets Metadata OffsetCommit OffsetFetch FindCoordinator JoinGroup Heartbeat
    LeaveGroup SyncGroup DescribeGroups ListGroups ApiVersions CreateTopics DeleteTopics
    DeleteRecords InitProducerId OffsetForLeaderEpoch DescribeConfigs AlterConfigs DescribeLogDirs
    CreatePartitions DeleteGroups IncrementalAlterConfigs OffsetDelete DescribeCluster
    ListConfigResources DescribeTopicPartitions AlterReplicaLogDirs ElectLeaders
    AlterPartitionReassignments ListPartitionReassignments DescribeQuorum UpdateFeatures
    DescribeAcls CreateAcls DeleteAcls DescribeProducers AddPartitionsToTxn AddOffsetsToTxn EndTxn
    TxnOffsetCommit WriteTxnMarkers DescribeTransactions ListTransactions SaslHandshake
    SaslAuthenticate DescribeUserScramCredentials AlterUserScramCredentials DescribeClientQuotas
    AlterClientQuotas CreateDelegationToken RenewDelegationToken ExpireDelegationToken
    DescribeDelegationToken GetTelemetrySubscriptions PushTelemetry
"""
PLAIN = "RequestHeader ResponseHeader ConsumerProtocolSubscription ConsumerProtocolAssignment"

# librdkafka turns compression off unless Produce 0 is announced, so Kafka announces it and refuses
# it when used (KAFKA-18659).  This is not in the message definitions.
ANNOUNCED_MIN = {"Produce": 0}

# Tidegate's own fields: tagged, from tag 10000 on, so that clients skip them (KIP-482). File ->
# (the line before the field, the field's line).
OWN_FIELDS = {
    "Metadata": (
        "      OfflineReplicas []int32 5+ ignorable",
        "      RecommendedProduceBrokers []int32 9+ tag 10000 9+ ignorable",
    )
}

Json = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description="Take the facts of Kafka's messages out of a jar")
    parser.add_argument("jar", type=Path, help="kafka-clients-<release>.jar")
    jar_path: Path = parser.parse_args().jar
    release = jar_path.stem.removeprefix("kafka-clients-")
    SCHEMA.mkdir(exist_ok=True)
    with zipfile.ZipFile(jar_path) as jar:
        for name, lines in schema_files(jar):
            if name in OWN_FIELDS:
                before, own = OWN_FIELDS[name]
                lines.insert(lines.index(before) + 1, own)
            head = f"# {name}: facts of Apache Kafka {release}, written by extract.py"
            (SCHEMA / f"{name}.txt").write_text("\n".join([head, *lines]) + "\n")
    (SCHEMA / "VERSION").write_text(release + "\n")


def schema_files(jar: zipfile.ZipFile) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the lines of each schema file."""
    for name in APIS.split():
        request, response = definition(jar, name + "Request"), definition(jar, name + "Response")
        announced = ANNOUNCED_MIN.get(name, int(request["validVersions"].split("-")[0]))
        head = f"api {request['apiKey']} {name} announced {announced}"
        yield name, [head, *message_lines(request), *message_lines(response)]
    for name in PLAIN.split():
        yield name, list(message_lines(definition(jar, name)))


def definition(jar: zipfile.ZipFile, name: str) -> Json:
    """Return a message definition from JSON, without its comment lines, which json cannot read."""
    text = jar.read(f"common/message/{name}.json").decode()
    parsed: Json = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
    return parsed


def message_lines(message: Json) -> Iterator[str]:
    yield ""
    words = [message["type"], message["name"], message["validVersions"]]
    words += ["flexible", message["flexibleVersions"]]
    if message.get("latestVersionUnstable"):
        words += ["unstable", message["validVersions"].split("-")[-1]]
    yield " ".join(words)
    common = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", [])}
    yield from field_lines(message["fields"], common, indent="  ")


def field_lines(fields: list[Json], common: Json, *, indent: str) -> Iterator[str]:
    for field in fields:
        yield indent + " ".join(field_words(field))
        struct = field.get("fields") or common.get(field["type"].removeprefix("[]"), [])
        yield from field_lines(struct, common, indent=indent + "  ")


def field_words(field: Json) -> Iterator[str]:
    yield from (field["name"], field["type"], field["versions"])
    if "nullableVersions" in field:
        yield from ("nullable", field["nullableVersions"])
    if "default" in field:
        yield from ("default", str(field["default"]).lower() or '""')
    if "tag" in field:
        yield from ("tag", str(field["tag"]), field["taggedVersions"])
    if field.get("flexibleVersions"):
        yield from ("flexible", field["flexibleVersions"])
    if field.get("ignorable"):
        yield "ignorable"


if __name__ == "__main__":
    main()
