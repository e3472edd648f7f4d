"""Host headers that a server without a token answers."""

from __future__ import annotations

import pytest
import trio
from trio.testing import memory_stream_pair

from tests.worlds.doors import alone
from tidegate_runtime.http.hosts import KnownHosts
from tidegate_runtime.http.pages import Answer, serve_pages
from tidegate_runtime.http.values import HttpRequest

ADVICE = "use an IP address"
HOSTS = KnownHosts(("gw-a.example.com", "", "Metrics.Example.org."), ADVICE)


@pytest.mark.parametrize(
    "header",
    [
        None,
        *("127.0.0.1", "127.0.0.1:9644", "10.1.2.3:80", "[::1]:9644", "[fe80::1]", "::1"),
        *("localhost", "LOCALHOST:9644", "a.localhost", "gateway-a:9644", "tidegate"),
        *("tidegate-0.tidegate.streams.svc:9644", "tidegate.streams.svc.cluster.local"),
        *("ip-10-0-0-1.eu-west-1.compute.internal:9644", "nas.local", "x.home.arpa"),
        *("gw-a.example.com:9644", "GW-A.example.com.", "metrics.example.org"),
    ],
)
def test_addresses_and_names_that_no_page_can_have_are_admitted(header: str | None) -> None:
    assert HOSTS.admits(header)


@pytest.mark.parametrize(
    "header",
    [
        *("evil.example", "evil.example:9644", "127.0.0.1.evil.example", "127.0.0.1.nip.io:9644"),
        *("localhost.evil.example", "gw-a.example.com.evil.example", "xlocalhost.com", "svc.com"),
        *("tidegate.dev", "b.gw-a.example.com", "evil.example."),
    ],
)
def test_a_name_that_a_page_can_have_is_refused(header: str) -> None:
    assert not HOSTS.admits(header)
    assert KnownHosts(("*",), ADVICE).admits(header)


class Page:
    async def answer(self, method: str, target: str) -> Answer:
        await trio.lowlevel.checkpoint()
        return Answer(200, "secret names")


def refuses_all_but_one(request: HttpRequest) -> Answer | None:
    return None if request.header("authorization") else Answer(401, "no")


@pytest.mark.parametrize(
    ("target", "asks_proof", "sent", "status"),
    [
        ("/metrics", False, "evil.example", 421),
        ("/metrics", False, "10.0.0.1:9644", 200),
        ("/livez", False, "evil.example", 200),
        ("/metrics", True, "evil.example\r\nAuthorization: Bearer x", 200),
        ("/metrics", True, "evil.example", 401),
    ],
)
async def test_a_page_needs_a_known_host_or_a_proof_but_for_health(
    target: str, asks_proof: bool, sent: str, status: int
) -> None:
    ours, theirs = memory_stream_pair()
    await ours.send_all(f"GET {target} HTTP/1.1\r\nHost: {sent}\r\n\r\n".encode())
    await ours.send_eof()
    if asks_proof:
        await serve_pages(
            theirs, Page(), alone(), refuses_all_but_one, hosts=HOSTS, asks_proof=True
        )
    else:
        await serve_pages(theirs, Page(), alone(), hosts=HOSTS)
    answer = b"".join([bytes(part) async for part in ours])
    assert int(answer.split(b" ")[1]) == status
    assert (b"secret names" in answer) is (status == 200)
    assert (ADVICE.encode() in answer) is (status == 421)
