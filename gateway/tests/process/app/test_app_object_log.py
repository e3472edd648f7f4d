"""Gateways that share nothing but a bucket, for records and log, as their users see them."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from tests.worlds.app_world import serving, tidegate
from tests.worlds.greetings import consume, produce

DEV = ("dev", "--port", "0", "--admin-port", "0")


def fresh(url: str) -> str:
    return url.replace("?", f"/{secrets.token_hex(4)}?")


def test_two_gateways_share_nothing_but_a_bucket(seaweed_s3_url: str, tmp_path: Path) -> None:
    url = fresh(seaweed_s3_url)
    snapshots = ("--set", "snapshot.interval.entries=20")
    shared = (*DEV, "--log", url, "--object-store", url, *snapshots)
    one = (*shared, "--data", "one", "--set", "node.id=1")
    two = (*shared, "--data", "two", "--set", "node.id=2")
    with serving(*one, cwd=tmp_path) as first, serving(*two, cwd=tmp_path) as second:
        assert first.said["metadata_log"] == url.partition("?")[0]
        assert first.said["cluster_id"] == second.said["cluster_id"]
        produce(first.servers, "a")
        assert consume(second.servers, 1) == ["a"]
        produce(second.servers, "b")
        assert consume(first.servers, 1) == ["b"]
        for each in (first, second):
            code, _ = each.stop()
            assert code == 0
    with serving(*one, cwd=tmp_path) as again:  # all of it comes from the bucket
        produce(again.servers, "c")
        assert consume(again.servers, 1) == ["c"]
    done = tidegate("doctor", "--log", url, "--data", "one", "--json", cwd=tmp_path)
    told = [each for each in json.loads(done.stdout)["checks"] if each["area"] == "metadata log"]
    assert told
    assert all(each["ok"] for each in told), told


def test_verify_keeps_its_promises_in_a_bucket(seaweed_s3_url: str, tmp_path: Path) -> None:
    done = tidegate("log", "verify", fresh(seaweed_s3_url), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.endswith("promises kept.\n")


def test_a_bucket_that_is_not_there_is_one_sentence(seaweed_s3_url: str, tmp_path: Path) -> None:
    url = fresh(seaweed_s3_url).replace("tidegate-tests", "tidegate-none")
    done = tidegate(*DEV, "--log", url, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("tidegate: the metadata log cannot be used: ")
    assert "create the bucket" in done.stderr
    assert "tidegate-test-secret" not in done.stderr
    assert done.stderr.count("\n") == 1
