"""One gateway appends to the metadata log for all, as users of the gateways see it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.worlds.app_world import Process, serving, tidegate
from tests.worlds.greetings import consume, produce
from tidegate_gateway.peers.peer_listener import refuse_own_address
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_runtime.settings_texts import SettingsError

SHARED = (
    *("serve", "--set", "object.store=file:objects", "--set", "forwarding=on"),
    *("--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", "admin.listener=127.0.0.1:0"),
    *("--set", "peer.token=shared-secret", "--set", "lease.ms=6000"),
)
PEER = ("--set", "peer.listener=127.0.0.1:0")
LOG = ("--set", "metadata.log=sqlite:metadata.db")


def gateway(node_id: int, *more: str) -> tuple[str, ...]:
    return (*SHARED, "--set", f"node.id={node_id}", "--data", f"data-{node_id}", *more)


@contextmanager
def cluster(cwd: Path) -> Iterator[list[Process]]:
    """Run two gateways that reach the log, and one that only forwards."""
    (cwd / "token").write_text("shared-secret\n")
    with ExitStack() as stack:
        found = [
            stack.enter_context(serving(*gateway(each, *LOG, *PEER), cwd=cwd)) for each in (1, 2)
        ]
        peers = ",".join(str(each.said["peer"]) for each in found)
        forward = ("--set", f"metadata.log=forward:{peers}?token-file=token")
        found.append(stack.enter_context(serving(*gateway(3, *forward, *PEER), cwd=cwd)))
        yield found


def metric(process: Process, name: str) -> float:
    _, text = process.get("/metrics")
    [line] = [each for each in text.splitlines() if each.startswith(f"tidegate_forwarding_{name} ")]
    return float(line.split()[1])


def test_one_gateway_appends_for_all_until_it_is_killed(tmp_path: Path) -> None:
    with cluster(tmp_path) as processes:
        produce(processes[2].servers, "a", "b")
        produce(processes[0].servers, "c")
        leading = [bool(metric(each, "leader")) for each in processes]
        assert sum(leading) == 1
        assert not leading[2]
        leader = processes[leading.index(True)]
        rest = [each for each in processes if each is not leader]
        assert metric(leader, "served_total") > 0
        assert all(metric(each, "proposals_total") > 0 for each in rest)
        leader.popen.kill()
        leader.popen.wait()
        produce(rest[1].servers, "d")
        assert sorted(consume(rest[0].servers, 4)) == ["a", "b", "c", "d"]
        for each in rest[::-1]:
            code, errors = each.stop()
            assert (code, "shared-secret" in errors) == (0, False)


def test_a_wrong_forward_address_gets_a_sentence(tmp_path: Path) -> None:
    with cluster(tmp_path) as processes:
        mine = str(processes[2].said["peer"])
        for log, words in (
            (f"forward:{mine}?token-file=token", "does not reach the metadata log itself"),
            (f"forward:{processes[0].said['peer']}", "token"),
            ("forward:", "write forward:HOST:PORT"),
        ):
            named = ("--set", f"metadata.log={log}")
            failed = tidegate(*gateway(4, *named, *PEER), cwd=tmp_path)
            assert (failed.returncode, failed.stdout) == (1, "")
            assert words in failed.stderr
        off = ("--set", f"metadata.log=forward:{processes[0].said['peer']}?token-file=token")
        failed = tidegate(*gateway(4, *off, *PEER, "--set", "forwarding=off"), cwd=tmp_path)
        assert (failed.returncode, failed.stdout) == (1, "")
        assert "remove forwarding=off" in failed.stderr


@pytest.mark.parametrize(
    ("listens", "named"),
    [
        ("127.0.0.1:9", "127.0.0.1:9"),
        ("0.0.0.0:9", "localhost:9"),
        ("localhost:9", "10.0.0.1:9,127.0.0.1:9/"),
        ("10.0.0.2:9", "10.0.0.2:9"),
        ("0.0.0.0:9", "gw.example:9"),
        ("[::1]:9", "[::1]:9?token-file=FILE"),
    ],
)
def test_a_gateway_does_not_wait_for_itself(listens: str, named: str) -> None:
    with pytest.raises(SettingsError, match="names this gateway itself"):
        refuse_own_address(_named(listens, f"forward:{named}"))


@pytest.mark.parametrize(
    ("listens", "named"),
    [
        ("127.0.0.1:9", "forward:127.0.0.1:8"),
        ("10.0.0.2:9", "forward:127.0.0.1:9"),
        ("127.0.0.2:9", "forward:127.0.0.1:9"),
        ("[::1]:9", "forward:127.0.0.1:9"),
        ("", "forward:127.0.0.1:9"),
        ("127.0.0.1:9", "http://127.0.0.1:9"),
    ],
)
def test_addresses_of_other_gateways_are_accepted(listens: str, named: str) -> None:
    refuse_own_address(_named(listens, named))


def _named(listens: str, log: str) -> BrokerSettings:
    given = {"peer.listener": listens, "peer.advertised.listener": "gw.example:9"}
    return BrokerSettings({"metadata.log": log, **(given if listens else {})})
