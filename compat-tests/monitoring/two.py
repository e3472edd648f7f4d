"""Two gateways over PostgreSQL.  Each is a process with its own admin pages."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager

from faults.world import Gateway
from harness.broker import fresh_folder
from harness.process import free_ports

LEASE_MS = 3000


@contextmanager
def two_gateways(logs: Sequence[str]) -> Generator[list[Gateway]]:
    """Start them with these URLs of one log; kill -9 after the block."""
    folder = fresh_folder("two")
    store = f"file:{folder / 'objects'}"
    with ExitStack() as stack:
        gateways: list[Gateway] = []
        for number, log in enumerate(logs, start=1):
            port, admin_port = free_ports(2)
            texts = {
                "node.id": str(number),
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "admin.listener": f"127.0.0.1:{admin_port}",
                "metadata.log": log,
                "object.store": store,
                "lease.ms": str(LEASE_MS),
                "group.initial.rebalance.delay.ms": "0",
                "num.partitions": "6",
            }
            place = folder / f"gateway-{number}"
            gateways.append(Gateway(number, place, port, admin_port, texts))
            stack.callback(kill, gateways[-1])
            gateways[-1].start()
        yield gateways


def kill(gateway: Gateway) -> None:
    """kill -9, if it runs."""
    if gateway.process is not None:
        gateway.process.kill()
