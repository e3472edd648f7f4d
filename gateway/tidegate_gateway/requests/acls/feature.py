"""The feature of ACLs."""

from __future__ import annotations

from ...feature import Feature, Ground, Row, always
from .acls import CreateAclsHandler, DeleteAclsHandler, DescribeAclsHandler
from .acts import acls_created, acls_deleted
from .guards import guard_create_acls, guard_delete_acls, guard_describe_acls


def acls_feature(ground: Ground, *, has_authorizer: bool) -> Feature:
    """Return the feature.  Without an authorizer it refuses all requests."""
    coordinator = ground.coordinator
    return Feature(
        "ACLs",
        (
            Row(
                DescribeAclsHandler(coordinator, has_authorizer),
                guard_describe_acls,
                lists=True,
            ),
            Row(
                CreateAclsHandler(coordinator, has_authorizer),
                guard_create_acls,
                act=acls_created,
                is_audited=True,
                proposes=always,
            ),
            Row(
                DeleteAclsHandler(coordinator, has_authorizer),
                guard_delete_acls,
                act=acls_deleted,
                is_audited=True,
                proposes=always,
            ),
        ),
    )
