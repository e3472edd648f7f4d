"""The features of the process: its event loop and its audit log."""

from __future__ import annotations

from functools import partial

from ..counting.loop_watch import LoopWatch
from ..feature import Feature, Ground, Task
from ..security.audit_log import AuditLog
from ..security.audit_metrics import audit_metrics


def loop_feature(ground: Ground, watch: LoopWatch) -> Feature:
    """Return the feature that watches the event loop; without used_seconds it does nothing."""
    is_real = ground.environment.used_seconds is not None
    return Feature(
        "event loop", tasks=(Task("watch the event loop", watch.run),) if is_real else ()
    )


def audit_feature(audit: AuditLog | None) -> Feature:
    """Return the feature.  audit: None without an audit log."""
    tasks = (Task("write the audit log", audit.run),) if audit is not None else ()
    return Feature("audit log", tasks=tasks, metrics=partial(audit_metrics, audit))
