"""Guards of the APIs of ACLs: one right on the cluster for the whole request."""

from __future__ import annotations

from typing import Final

from tidegate_coordination.security.acls import Operation
from tidegate_protocol.messages import create_acls, delete_acls, describe_acls

from ...security.guard import denied_whole, whole

guard_describe_acls: Final = whole(Operation.DESCRIBE, denied_whole(describe_acls))
guard_create_acls: Final = whole(Operation.ALTER, denied_whole(create_acls))
guard_delete_acls: Final = whole(Operation.ALTER, denied_whole(delete_acls))
