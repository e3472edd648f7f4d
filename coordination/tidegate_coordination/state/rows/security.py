"""Rows of the events of ACLs, credentials, quotas and tokens; see event_rows.py."""

from __future__ import annotations

from typing import Final

from ...events import security as sev
from ..changes import ACLS, QUOTAS, SCRAM, TOKENS
from .row import Row

SECURITY_ROWS: Final = (
    Row(
        sev.AclsChanged,
        lambda f: f.cluster.fold_acls_changed,
        ACLS,
        lambda t: t.security.acls_changed,
    ),
    Row(
        sev.ScramCredentialSet,
        lambda f: f.state.scram.fold_set,
        SCRAM,
        lambda t: t.security.scram_set,
    ),
    Row(
        sev.ScramCredentialRemoved,
        lambda f: f.state.scram.fold_removed,
        SCRAM,
        lambda t: t.security.scram_removed,
    ),
    Row(
        sev.ScramCredentialSealed,
        lambda f: f.state.scram.fold_sealed,
        SCRAM,
        lambda t: t.security.scram_set,
    ),
    Row(
        sev.ClientQuotasSet,
        lambda f: f.state.quotas.fold_set,
        QUOTAS,
        lambda t: t.security.quotas_set,
    ),
    Row(
        sev.DelegationTokenSet,
        lambda f: f.state.tokens.fold_set,
        TOKENS,
        lambda t: t.security.token_set,
    ),
    Row(
        sev.DelegationTokensRemoved,
        lambda f: f.state.tokens.fold_removed,
        TOKENS,
        lambda t: t.security.tokens_removed,
    ),
)
