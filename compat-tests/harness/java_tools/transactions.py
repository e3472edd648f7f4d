"""Calls about transactions and features, while transactions are open and after they have ended."""

from __future__ import annotations

from harness.java_tools.script import Call, Step

T = "transactions"
TX = "transactor"
G = "consumer-groups"
ABORT = "abort --topic jt-txn-2 --partition 0 --start-offset"
READ = "--from-beginning --timeout-ms 3000 --isolation-level"

_EMPTY: list[Step] = [
    Call("topics", "--create --topic jt-txn --partitions 2"),
    Call("topics", "--create --topic jt-txn-2 --partitions 1"),
    Call(T, "list", view="table", label="list, no id"),
    Call(T, "find-hanging --topic jt-txn", view="table", label="find-hanging, no id"),
    Call(TX, "init jt-tx-a 900000"),
    Call(TX, "init jt-tx-b 60000"),
    Call(T, "list", view="table", label="list, none open"),
]

_OPEN: list[Step] = [
    Call(TX, "begin jt-tx-a"),
    Call(TX, "send jt-tx-a jt-txn 0 one"),
    Call(T, "list", view="table", label="list, one open"),
    Call(T, "list --transactional-id-pattern .*-a", view="table"),
    Call(T, "list --transactional-id-pattern jt", view="table"),
    Call(T, "list --transactional-id-pattern ["),
    Call(T, "list --duration-filter 0", view="table"),
    Call(T, "list --duration-filter 3600000", view="table"),
    Call(T, "list --duration-filter -5", view="table"),
    Call(T, "list --duration-filter soon"),
    Call(T, "describe --transactional-id jt-tx-a", view="table", label="describe, open"),
    Call(T, "describe --transactional-id jt-tx-b", view="table", label="describe, not open"),
    Call(T, "describe --transactional-id jt-missing"),
    Call(T, "describe"),
    Call(
        T, "describe-producers --topic jt-txn --partition 0", view="table", label="producers, open"
    ),
    Call(T, "describe-producers --topic jt-txn --partition 0 --broker-id 1", view="table"),
    Call(
        T, "describe-producers --topic jt-txn --partition 1", view="table", label="producers, none"
    ),
    *(
        Call(T, f"--command-config {{HASTY}} describe-producers {words}", view="timeouts")
        for words in (
            "--topic jt-missing --partition 0",
            "--topic jt-txn --partition 9",
            "--topic jt-txn --partition 0 --broker-id 77",
        )
    ),
    Call(T, "find-hanging --broker-id 1", view="table"),
    Call(T, "find-hanging --topic jt-txn", view="table"),
    Call(T, "find-hanging --topic jt-txn --partition 0", view="table"),
    Call(T, "find-hanging --topic jt-txn --max-transaction-timeout 1", view="table"),
    Call(T, "find-hanging --broker-id 77", view="table"),
    Call(T, "find-hanging"),
    Call(T, "find-hanging --partition 0"),
    Call("console-consumer", f"--topic jt-txn {READ} read_committed", label="committed, open"),
    Call("console-consumer", f"--topic jt-txn {READ} read_uncommitted", label="uncommitted, open"),
    Call("get-offsets", "--topic jt-txn", label="of an open transaction"),
    Call(TX, "offsets jt-tx-a jt-tg jt-txn 0 1"),
    Call(T, "describe --transactional-id jt-tx-a", view="table", label="describe, with offsets"),
    Call(G, "--list", view="sorted", keep="^jt-t", label="--list, staged offsets"),
    Call(G, "--describe --group jt-tg", label="--describe, staged offsets"),
    Call(G, "--describe --group jt-tg --state", label="--state, staged offsets"),
]

_ENDED: list[Step] = [
    Call(TX, "commit jt-tx-a"),
    Call(
        T,
        "describe --transactional-id jt-tx-a",
        view="table",
        until="CompleteCommit",
        label="describe, committed",
    ),
    Call(T, "list", view="table", label="list, one committed"),
    Call(
        T, "describe-producers --topic jt-txn --partition 0", view="table", label="producers, ended"
    ),
    Call(G, "--describe --group jt-tg", label="--describe, committed offsets"),
    Call(TX, "begin jt-tx-b"),
    Call(TX, "send jt-tx-b jt-txn 0 two"),
    Call(TX, "offsets jt-tx-b jt-th jt-txn 0 1"),
    Call(G, "--delete-offsets --group jt-th --topic jt-txn:0", label="--delete-offsets, staged"),
    Call(TX, "offsets jt-tx-b jt-ti jt-txn 0 1"),
    Call(G, "--delete --group jt-ti", label="--delete, staged offsets"),
    Call(TX, "abort jt-tx-b"),
    Call(
        T,
        "describe --transactional-id jt-tx-b",
        view="table",
        until="CompleteAbort",
        label="describe, aborted",
    ),
    Call(G, "--list", view="sorted", keep="^jt-t", label="--list, aborted offsets"),
    Call(G, "--delete --group jt-th --group jt-tg", view="sorted"),
    Call("console-consumer", f"--topic jt-txn {READ} read_committed", label="committed, aborted"),
    Call(
        "console-consumer", f"--topic jt-txn {READ} read_uncommitted", label="uncommitted, aborted"
    ),
    Call("get-offsets", "--topic jt-txn", label="with markers"),
]

_BY_OTHERS: list[Step] = [
    Call(TX, "init jt-tx-c 1000"),
    Call(TX, "begin jt-tx-c"),
    Call(TX, "send jt-tx-c jt-txn 1 three"),
    Call(
        T,
        "describe --transactional-id jt-tx-c",
        view="table",
        until="CompleteAbort",
        label="describe, timed out",
    ),
    Call(TX, "send jt-tx-c jt-txn 1 four", label="send jt-tx-c, timed out"),
    Call(TX, "commit jt-tx-c", label="commit jt-tx-c, timed out"),
    Call(TX, "abort jt-tx-c"),
    Call(TX, "begin jt-tx-c", label="begin jt-tx-c again"),
    Call(TX, "send jt-tx-c jt-txn 1 four"),
    Call(TX, "commit jt-tx-c"),
    Call(TX, "begin jt-tx-a", label="begin jt-tx-a again"),
    Call(TX, "send jt-tx-a jt-txn 1 five"),
    Call(T, "forceTerminateTransaction --transactionalId jt-tx-a"),
    Call(T, "describe --transactional-id jt-tx-a", view="table", label="describe, terminated"),
    Call(TX, "commit jt-tx-a", label="commit jt-tx-a, terminated"),
    Call(TX, "abort jt-tx-a", label="abort jt-tx-a, terminated"),
    Call(T, "forceTerminateTransaction --transactionalId jt-tx-a", label="terminate, not open"),
    Call(T, "forceTerminateTransaction --transactionalId jt-missing"),
    Call(TX, "init jt-tx-d 60000"),
    Call(TX, "begin jt-tx-d"),
    Call(TX, "send jt-tx-d jt-txn-2 0 six"),
    Call(T, f"{ABORT} 7"),
    Call(T, "abort --topic jt-txn-2 --partition 0"),
    Call(T, "abort --topic jt-txn-2 --partition 0 --producer-id 7"),
    Call(T, f"{ABORT} 0"),
    Call(
        T, "describe --transactional-id jt-tx-d", view="table", label="describe, aborted by a tool"
    ),
    Call(T, "describe-producers --topic jt-txn-2 --partition 0", view="table"),
    Call(T, f"{ABORT} 0", label="abort again"),
    Call("get-offsets", "--topic jt-txn-2"),
    Call(TX, "abort jt-tx-d"),
    Call(
        T,
        "describe --transactional-id jt-tx-d",
        view="table",
        until="CompleteAbort",
        label="describe, aborted twice",
    ),
    Call(T, "list", view="table", label="list at the end"),
    Call(
        "console-consumer",
        f"--topic jt-txn {READ} read_committed",
        view="sorted",
        label="at the end",
    ),
]

_FEATURES: list[Step] = [
    Call("features", "describe", keep="transaction.version"),
    Call("features", "describe --node-id 1", keep="transaction.version"),
    Call("features", "upgrade --feature transaction.version=2 --dry-run"),
    Call("features", "upgrade --feature transaction.version=2"),
    Call("features", "upgrade --feature transaction.version=3 --dry-run"),
    Call("features", "upgrade --feature transaction.version=1 --dry-run"),
    Call("features", "upgrade --feature transaction.version=two --dry-run"),
    Call("features", "upgrade --feature transaction.version=-1 --dry-run"),
    Call("features", "upgrade --feature no.such.version=1 --dry-run"),
    Call("features", "upgrade --dry-run"),
    Call("features", "downgrade --feature transaction.version=2 --dry-run"),
    Call("features", "downgrade --feature transaction.version=3 --dry-run"),
    Call("features", "downgrade --feature transaction.version=1 --dry-run"),
    Call("features", "downgrade --feature transaction.version=1 --unsafe --dry-run"),
    Call("features", "downgrade --feature no.such.version=1 --dry-run"),
    Call("features", "disable --feature transaction.version --dry-run"),
    Call("features", "disable --feature no.such.version --dry-run"),
]

TRANSACTIONS: list[Step] = [*_EMPTY, *_OPEN, *_ENDED, *_BY_OTHERS, *_FEATURES]
