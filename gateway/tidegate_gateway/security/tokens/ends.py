"""The time by which a gateway judges whether a delegation token is good.  Pure."""

from __future__ import annotations

from tidegate_coordination.state.cluster import ClusterState


def judging_ms(state: ClusterState, clock_seconds: float) -> float:
    """Return the time of the rules (rules/security/tokens.py), or this gateway's if it is later.

    So neither a slow clock nor a log without new entries makes a token last longer.

    Args:
      clock_seconds: this gateway's clock, in seconds since 1970.
    """
    return max(clock_seconds * 1000, state.gateways.earlier_of_median_and(state.log_time_ms))
