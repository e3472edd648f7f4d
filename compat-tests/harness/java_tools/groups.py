"""Calls about consumer groups and the cluster, and the performance tools."""

from __future__ import annotations

from harness.java_tools.script import Call, Join, Leave, Step

G = "consumer-groups"
RESET = "--reset-offsets --group jt-g --topic jt-one"

GROUPS: list[Step] = [
    Call(G, "--list", view="sorted", keep="^jt"),
    Call(G, "--list --state", view="sorted", keep="jt|GROUP"),
    Call(G, "--list --state Empty", view="sorted", keep="jt|GROUP"),
    Call(G, "--list --type", view="sorted", keep="jt|GROUP"),
    Call("groups", "--list", view="sorted", keep="jt|GROUP"),
    Call(G, "--describe --group jt-g"),
    Call(G, "--describe --group jt-g --members"),
    Call(G, "--describe --group jt-g --state"),
    Call(G, "--describe --group jt-missing"),
    Call(G, "--describe --group jt-missing --state"),
    Call(G, f"{RESET} --to-earliest --dry-run"),
    Call(G, f"{RESET} --to-earliest --execute"),
    Call(G, "--describe --group jt-g", label="--describe after reset"),
    Call(G, f"{RESET} --shift-by 2 --execute"),
    Call(G, f"{RESET} --shift-by 1000 --execute"),
    Call(G, f"{RESET} --to-offset 4 --execute"),
    Call(G, f"{RESET} --to-latest --dry-run"),
    Call(G, f"{RESET} --to-current --dry-run"),
    Call(G, f"{RESET} --to-datetime 2020-01-01T00:00:00.000 --dry-run"),
    Call(G, f"{RESET} --to-datetime 2090-01-01T00:00:00.000 --dry-run"),
    Call(G, f"{RESET} --by-duration P1D --dry-run"),
    Call(G, f"{RESET} --to-offset 5 --export --dry-run"),
    Call(G, "--reset-offsets --group jt-g --topic jt-one:0 --to-earliest --dry-run"),
    Call(G, "--reset-offsets --group jt-g --all-topics --to-earliest --dry-run"),
    Call(G, "--reset-offsets --group jt-new --topic jt-one --to-latest --execute"),
    Call(G, "--reset-offsets --group jt-g --topic jt-missing --to-latest --dry-run"),
    Call(
        "console-consumer",
        "--topic jt-one --group jt-g --max-messages 1 --timeout-ms 20000",
        label="group, after reset",
    ),
    Join("jt-live", "jt-a", "jt-client-1"),
    Call(G, "--describe --group jt-live --state", until="Stable", label="--state, one member"),
    Call(G, "--describe --group jt-live", until="jt-a +5 +", label="--describe, one member"),
    Call(G, "--describe --group jt-live --members", label="--members, one member"),
    Call(G, "--describe --group jt-live --members --verbose", label="--verbose, one member"),
    Join("jt-live", "jt-a", "jt-client-2"),
    Call(
        G,
        "--describe --group jt-live --members --verbose",
        view="sorted",
        until="(?s)jt-client-1 +3 .*jt-client-2 +3 |jt-client-2 +3 .*jt-client-1 +3 ",
        label="--verbose, two members",
    ),
    Call(G, "--list --state Stable", view="sorted", keep="jt|GROUP"),
    Call(G, "--reset-offsets --group jt-live --topic jt-a --to-earliest --execute"),
    Call(G, "--delete --group jt-live", label="--delete a live group"),
    Call(G, "--delete-offsets --group jt-live --topic jt-a", label="--delete-offsets, live"),
    Leave(),
    Call(G, "--describe --group jt-live --state", until="Empty", label="--state, all left"),
    Call(G, "--delete-offsets --group jt-g --topic jt-one"),
    Call(G, "--delete-offsets --group jt-g --topic jt-one:0"),
    Call(G, "--delete-offsets --group jt-g --topic jt-missing"),
    Call(G, "--delete-offsets --group jt-missing --topic jt-one"),
    Call(G, "--delete --group jt-live"),
    Call(G, "--delete --group jt-live", label="--delete again"),
    Call(G, "--delete --group jt-g --group jt-new", view="sorted"),
    Call(G, "--list", view="sorted", keep="^jt", label="--list at the end"),
]

CLUSTER: list[Step] = [
    Call("broker-api-versions", "", view="apis"),
    Call("cluster", "cluster-id"),
    Call("cluster", "list-endpoints"),
    Call("log-dirs", "--describe --topic-list jt-default", view="figures"),
    Call("acls", "--list"),
]

PERFORMANCE: list[Step] = [
    Call("topics", "--create --topic jt-perf --partitions 4"),
    Call(
        "producer-perf",
        "--topic jt-perf --num-records 20000 --record-size 512 --throughput -1 "
        "--command-property acks=all",
        view="last",
        label="20000 records",
    ),
    Call("get-offsets", "--topic jt-perf --time -1", view="figures"),
    Call(
        "consumer-perf",
        "--topic jt-perf --num-records 20000 --group jt-perf-g --timeout 30000",
        view="figures",
        label="20000 records",
    ),
    Call(
        "e2e-latency",
        "--topic jt-perf --num-records 100 --producer-acks all --record-size 100",
        view="figures",
        label="100 records",
    ),
]
