"""Tidegate's image for testcontainers; needs the extra `testcontainers` (docs/testing.md).

Clients on the host reach the container by a port that the container engine chooses at the
container's start.  The gateway must advertise this port, so it starts after the container: the
container's first program waits for a file with the address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Self

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

PORT: Final = 9092
START_SECONDS: Final = 60
LOOK_SECONDS: Final = 0.1
QUOTED_BYTES: Final = 2000
SERVES: Final = re.compile('"bootstrap_servers"')
ADDRESS: Final = "/tmp/advertised-listeners"
# Wait until the file has content: the engine first creates the file, and writes it later.
WAIT_FOR_ADDRESS: Final = f"""\
until [ -s {ADDRESS} ]; do sleep {LOOK_SECONDS}; done
export TIDEGATE_ADVERTISED_LISTENERS="$(cat {ADDRESS})"
exec /opt/tidegate/bin/start serve --json --data /var/lib/tidegate
"""
SETTINGS: Final[Mapping[str, str]] = {
    "listeners": f"PLAINTEXT://0.0.0.0:{PORT}",
    "allow.plaintext.listeners": "true",
    "admin.listener": "",
    "object.store": "memory:",
    "metadata.log": "memory:",
    "group.initial.rebalance.delay.ms": "0",
}


class TidegateContainer(DockerContainer):
    """A gateway in a container, which keeps all records in memory.

        with TidegateContainer(image) as tidegate:
            producer = Producer({"bootstrap.servers": tidegate.get_bootstrap_server()})

    The image is built as deploy/image/README.md says.
    """

    def __init__(
        self,
        image: str,
        *,
        settings: Mapping[str, str | int | bool] = MappingProxyType({}),
        **kwargs: Any,
    ) -> None:
        """Choose the image, and settings by their names in docs/configuration.md.

        kwargs: the arguments of DockerContainer.
        """
        super().__init__(image, **kwargs)
        self.with_exposed_ports(PORT)
        for name, value in {**SETTINGS, **settings}.items():
            self.with_env(variable_of(name), str(value))

    def _configure(self) -> None:
        # with_kwargs() may have replaced the arguments that were set before.
        self.with_kwargs(**{**self._kwargs, "entrypoint": ["sh", "-c", WAIT_FOR_ADDRESS]})

    def start(self) -> Self:
        """Start the container, and wait until the gateway serves.

        Raises:
          TimeoutError, RuntimeError: the gateway does not serve; a note quotes its output.
        """
        super().start()
        address = f"PLAINTEXT://{self.get_bootstrap_server()}"
        self.copy_into_container(address.encode(), ADDRESS)
        serves = LogMessageWaitStrategy(SERVES).with_startup_timeout(START_SECONDS)
        try:
            serves.with_poll_interval(LOOK_SECONDS).wait_until_ready(self)
        except (RuntimeError, TimeoutError) as error:
            error.add_note(b"".join(self.get_logs())[-QUOTED_BYTES:].decode(errors="replace"))
            raise
        return self

    def get_bootstrap_server(self) -> str:
        """Return the bootstrap.servers of clients on the host, such as "localhost:40123"."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(PORT)}"


def variable_of(name: str) -> str:
    """Return TIDEGATE_NODE_ID for node.id, as containers of Kafka have it."""
    text = name.replace("_", "__").replace("-", "___").replace(".", "_")
    return f"TIDEGATE_{text.upper()}"
