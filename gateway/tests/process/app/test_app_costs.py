"""The sums of gateways that stop in order are the requests that a relay to their store counts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.process.app.test_app_object_log import DEV, fresh
from tests.worlds.app_world import serving, tidegate
from tests.worlds.counting_relay import counting_relay
from tests.worlds.greetings import consume, produce


def test_sums_are_what_a_relay_counts(seaweed_s3_url: str, tmp_path: Path) -> None:
    url = fresh(seaweed_s3_url)
    [endpoint] = parse_qs(urlsplit(url).query)["endpoint"]
    with counting_relay(endpoint) as (relayed, counts):
        through = url.replace(endpoint, relayed)
        stored = ("--set", "wal.inline.max.bytes=0")
        one = (*DEV, "--object-store", through, "--data", "one", *stored)
        for life in range(2):
            with serving(*one, cwd=tmp_path) as gateway:
                produce(gateway.servers, f"greeting {life}")
                assert len(consume(gateway.servers, life + 1, f"g{life}")) == life + 1
                assert gateway.stop()[0] == 0
        seen = Counter(counts)
        done = tidegate("cost", "--object-store", through, "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    requests: Counter[str] = Counter()
    for name, count in report["requests"].items():
        requests[name.partition(" ")[0]] += count
    assert requests == seen
    assert report["intervals"] == report["requests"]["put costs"] == 2
    assert sum(each["puts"] for each in report["topics"]) == report["requests"]["put wal"]
    [client] = report["clients"]
    assert client["name"] == "rdkafka"
    assert client["gets"] >= 1  # after its restart the gateway has nothing in memory
