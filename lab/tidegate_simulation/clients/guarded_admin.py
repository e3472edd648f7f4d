"""An administrator to whom the guardian (guarded.py) gives a right and takes it away.

It only sends requests.  invariants/rights_checks.py judges its changes by the log.
"""

from __future__ import annotations

from typing import Final

import trio

from tidegate_coordination.security.acls import Operation
from tidegate_protocol.messages import incremental_alter_configs

from ..plans.security.rights_plan import ADMIN, TOPIC
from .client import Client, Disconnected
from .workload import Workload

ALTER_CONFIGS: Final = Operation.ALTER_CONFIGS
_TOPIC_KIND: Final = 2
_SET: Final = 0
_VERSION: Final = 1
_CONFIG: Final = "max.message.bytes"
_PATIENCE_SECONDS: Final = 5.0
_LEAST: Final = 1_048_588


class GuardedAdmin:
    """Sets a config of the guarded topic, again and again, at any gateway."""

    def __init__(self, workload: Workload) -> None:
        self.client = Client(workload.world, ADMIN)
        self._workload = workload
        self._hurry = trio.Event()

    def hurry(self) -> None:
        """Send a request now, because the guardian is about to take the right away."""
        self._hurry.set()

    async def run(self) -> None:
        """Ask until no operation is left; the writer creates the topic."""
        value = _LEAST
        while self._workload.take():
            value += 1
            config = incremental_alter_configs.AlterableConfig(_CONFIG, _SET, str(value))
            resource = incremental_alter_configs.AlterConfigsResource(_TOPIC_KIND, TOPIC, [config])
            request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
            try:
                await self.client.call(
                    "IncrementalAlterConfigs", incremental_alter_configs, _VERSION, request
                )
            except Disconnected:
                await self.client.pause(1.0)
            with trio.move_on_after(_PATIENCE_SECONDS):
                await self._hurry.wait()
            self._hurry = trio.Event()
        self.client.close()
