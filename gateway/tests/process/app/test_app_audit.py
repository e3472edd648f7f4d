"""The audit log of a gateway that is killed."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.worlds.app_world import PATIENCE_SECONDS, serving
from tidegate_gateway.security.audit_chain import verify

TOPICS = [f"t{number}" for number in range(5)]


def test_a_full_disk_keeps_no_change_from_its_answer(tmp_path: Path) -> None:
    dev = ("dev", "--port", "0", "--admin-port", "0", "--memory")
    with serving(*dev, "--set", "audit.log.file=/dev/full", cwd=tmp_path) as process:
        admin = AdminClient({"bootstrap.servers": process.servers})
        for each in admin.create_topics([NewTopic(name, 1, 1) for name in TOPICS]).values():
            each.result(PATIENCE_SECONDS)
        assert process.get("/livez") == (200, "ok\n")
        _, metrics = process.get("/metrics")
        assert "tidegate_audit_unwritten_answers_total 1.0\n" in metrics
        code, errors = process.stop()
    assert code == 0
    assert errors.count("the audit log cannot be written") == 1


def test_kill_9_loses_no_line_of_an_acknowledged_change(tmp_path: Path) -> None:
    dev = ("dev", "--port", "0", "--admin-port", "0", "--memory")
    with serving(*dev, "--set", "audit.log.file=audit.log", cwd=tmp_path) as process:
        admin = AdminClient({"bootstrap.servers": process.servers})
        for each in admin.create_topics([NewTopic(name, 1, 1) for name in TOPICS]).values():
            each.result(PATIENCE_SECONDS)
        for name in TOPICS:
            [deleted] = admin.delete_topics([name]).values()
            deleted.result(PATIENCE_SECONDS)
        process.popen.send_signal(signal.SIGKILL)
        assert process.popen.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    lines = (tmp_path / "audit.log").read_bytes().splitlines()
    assert verify(lines).broken == ()
    entries = [json.loads(each) for each in lines]
    deleted_names = [each["names"] for each in entries if each["event"] == "topics deleted"]
    assert deleted_names == [[name] for name in TOPICS]
