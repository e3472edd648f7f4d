"""Clients at full speed under quotas, at Apache Kafka and at a gateway: the rates they get.

    compat-tests/run quotas [--seconds 60]

kafka-configs.sh sets the quotas and shows them.  The exit status is 1 if a rate differs from
Kafka's by more than 5 %, or if the tool's output differs.  The rate of requests depends on the CPU
time of a request, so it is only shown.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from harness.broker import running
from harness.toolbox import call_alone
from runner.options import option
from runner.result import Result

from quotas.scripts import ELSEWHERE, FETCHED, PRODUCED, SCRIPTS, fill

CONFIG_TOOL: Final = "kafka.admin.ConfigCommand"
SETTINGS: Final = (
    (("--entity-type", "clients", "--entity-name", "producing"), "producer_byte_rate=1000000"),
    (("--entity-type", "clients", "--entity-name", "fetching"), "consumer_byte_rate=1000000"),
    (("--entity-type", "clients", "--entity-name", "creating"), "controller_mutation_rate=2"),
    (("--entity-type", "ips", "--entity-name", ELSEWHERE), "connection_creation_rate=5"),
    (
        (
            *("--entity-type", "users", "--entity-default"),
            *("--entity-type", "clients", "--entity-name", "asking"),
        ),
        "request_percentage=1",
    ),
    (("--entity-type", "users", "--entity-default"), "producer_byte_rate=900000000"),
    (("--entity-type", "clients", "--entity-default"), "consumer_byte_rate=900000000"),
)
SHOWN: Final = (
    ("--entity-type", "clients"),
    ("--entity-type", "users"),
    ("--entity-type", "ips"),
    ("--entity-type", "users", "--entity-default"),
    ("--entity-type", "clients", "--entity-default"),
    ("--entity-type", "users", "--entity-type", "clients"),
    ("--entity-type", "clients", "--entity-name", "producing"),
)
ALLOWED: Final = 0.05


def measure(against: str, seconds: float) -> tuple[dict[str, float], list[str]]:
    """Return the rates, and what the tool shows."""
    with running(against) as broker:
        bootstrap = broker.bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.create_topics([NewTopic(PRODUCED, 1), NewTopic(FETCHED, 1)]).values():
            future.result(30)
        fill(bootstrap, int((seconds + 30) * 1_000_000))
        for entity, quota in SETTINGS:
            tool(bootstrap, "--alter", *entity, "--add-config", quota)
        shown = [tool(bootstrap, "--describe", *entity) for entity in SHOWN]
        # The last two quotas are only for the tool.  A quota of the user would apply to the
        # producer.
        for entity, quota in SETTINGS[-2:]:
            name, _, _ = quota.partition("=")
            tool(bootstrap, "--alter", *entity, "--delete-config", name)
        with ThreadPoolExecutor() as threads:
            started = {
                name: threads.submit(script, bootstrap, seconds) for name, script in SCRIPTS.items()
            }
            return {name: future.result() for name, future in started.items()}, shown


def tool(bootstrap: str, *arguments: str) -> str:
    """Run kafka-configs.sh; return its lines, sorted."""
    printed = call_alone(CONFIG_TOOL, ["--bootstrap-server", bootstrap, *arguments])
    assert printed.status == 0, printed
    return "\n".join(sorted(printed.stdout.splitlines()))


@dataclass(frozen=True)
class Options:
    """The options."""

    seconds: float = option(60.0, "of each kind of quota")


def main(options: Options) -> Result:
    """Run it."""
    kafka, kafka_shown = measure("kafka", options.seconds)
    ours, shown = measure("tidegate", options.seconds)
    worst = 0.0
    print(f"{'quota':28} {'Kafka':>12} {'Tidegate':>12}  ratio")
    for name, rate in kafka.items():
        ratio = ours[name] / rate
        print(f"{name:28} {rate:12.2f} {ours[name]:12.2f}  {ratio:.3f}")
        if name != "request_percentage":
            worst = max(worst, abs(ratio - 1))
    for entity, theirs, own in zip(SHOWN, kafka_shown, shown, strict=True):
        if theirs != own:
            print(f"--describe {' '.join(entity)} differs:\n{theirs}\n-- and --\n{own}")
    return Result(worst <= ALLOWED and shown == kafka_shown)
