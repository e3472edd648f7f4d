"""The tables with the names of one tenant (decision 47).

Two tenants may use the same names, so each has these tables for itself.  The things that the names
stand for have numbers, and are in tables that all tenants share: see StateTables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .configs import ConfigTable
from .groups import GroupTable
from .migration.links import LinkTable
from .migration.source_groups import LinkGroupTable
from .migration.switches import SwitchTable
from .name_changes import NameChanges
from .offsets_topic import OffsetsTopic
from .records.partition_table import PartitionTable
from .security.acls import AclTable
from .security.quotas import ClientQuotaTable
from .security.scram import ScramTable
from .security.tokens import TokenTable
from .topics import TopicTable
from .transactions.table import TransactionTable
from .writers.claims import ClaimTable


class TenantTables:
    """See the module's head.

    claims: the claims on groups and imports. configs: the configs of groups and client metrics, and
      the defaults of all brokers.  Tenant 0's tables have those of all tenants, too: the claims of
      the housekeeper and of the pipeline, and the configs of single brokers.
    """

    def __init__(self, partitions: PartitionTable, on_growth: Callable[[int], None]) -> None:
        """partitions: of all tenants.  on_growth: called with the number of a partition before it
        grows.
        """
        self.claims: Final = ClaimTable()
        self.topics: Final = TopicTable()
        self.links: Final = LinkTable(self.topics)
        self.switches: Final = SwitchTable()
        self.groups: Final = GroupTable()
        self.transactions: Final = TransactionTable()
        self.offsets_topic: Final = OffsetsTopic(self.topics, partitions, self.groups, on_growth)
        self.link_groups: Final = LinkGroupTable(self.links, self.groups, self.transactions)
        self.configs: Final = ConfigTable()
        self.name_changes: Final = NameChanges()
        self.acls: Final = AclTable()
        self.scram: Final = ScramTable()
        self.quotas: Final = ClientQuotaTable()
        self.tokens: Final = TokenTable()
