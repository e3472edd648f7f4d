"""The kinds of steps of the script: calls of tools, and members that run beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TOOLS = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "consumer-perf": "org.apache.kafka.tools.ConsumerPerformance",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "producer-perf": "org.apache.kafka.tools.ProducerPerformance",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}

# A program of ours.  Each call of it is one step of a transactional producer.
TRANSACTOR = "transactor"

# How output is compared.  lines: in order.  sorted: in any order, since it is that of a hash map.
# last: only the last line, each figure replaced by <n>.  figures: all lines, each figure replaced
# by <n>.  apis: by API.  timeouts: without the client's list of its attempts.  table: rows in any
# order, with <n> for the figures of some columns.
View = Literal["lines", "sorted", "last", "figures", "apis", "timeouts", "table"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool.

      `words` are split as a shell does; {FILE} in them is the path of a file with `file` in it,
    {HASTY} that of client settings with short time-outs.
      Only lines that match `keep` count.  With `until`, the call is repeated until its output
      matches, within 30 s.
    """

    tool: str
    words: str
    stdin: str = ""
    file: str = ""
    view: View = "lines"
    keep: str = ""
    until: str = ""
    label: str = ""

    @property
    def name(self) -> str:
        """The name of the call in the record and the tables."""
        return f"{self.tool} {self.label or self.words}"


@dataclass(frozen=True, slots=True)
class Join:
    """A console consumer joins a group and stays."""

    group: str
    topic: str
    client_id: str


@dataclass(frozen=True, slots=True)
class Leave:
    """All console consumers of the script are stopped, and leave their groups."""


Step = Call | Join | Leave
