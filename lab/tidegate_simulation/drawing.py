"""Draws a run from its seed: the settings of its gateways, and all plans of faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from .nemesis.restore_trial import draws_restore
from .plans.beginnings import draw_beginnings
from .plans.disk_plan import draw_disks
from .plans.expiry_plan import draw_expiries
from .plans.faults import FaultPlan, draw_plan, draw_settings
from .plans.gateways.away_plan import AWAY_KIND, draws_away
from .plans.gateways.drain_plan import DRAIN_KIND, draws_drains
from .plans.gateways.forwarding_plan import draw_forwarding
from .plans.gateways.refused_plan import draw_refusals, settings_for
from .plans.gateways.zone_plan import draw_zones
from .plans.inline_plan import draw_inlining
from .plans.link_plan import draw_links
from .plans.losses import draw_losses
from .plans.malformed_plan import draw_malformed
from .plans.move_plan import draw_moves
from .plans.pipeline_plan import draw_pipelines
from .plans.security.login_plan import draw_logins
from .plans.security.quota_plan import draw_quotas
from .plans.security.rights_plan import draw_rights
from .plans.security.sealing_plan import REPLACED
from .plans.settings_plan import draw_static
from .plans.transaction_plan import draw_transaction_plan
from .plans.version_plan import VersionPlan, draw_versions


def draw_run(seed: int, rng: Random, asked_zones: int) -> tuple[dict[str, str], FaultPlan]:
    """Return the settings of all gateways of a run, and its faults.

    rng: of the run; it makes the same draws in the same order for a seed.  All other draws come
    from generators of their own.
    asked_zones: see simulate().
    """
    settings = draw_settings(rng)
    plan = draw_plan(rng, settings)
    pipelines = draw_pipelines(
        Random(f"{seed}/pipelines"),
        is_calm=not plan.kinds,
        with_wrong_clocks=plan.has_wrong_clocks,
    )
    losses = draw_losses(Random(f"{seed}/losses"), is_calm=not plan.kinds)
    disks = draw_disks(
        Random(f"{seed}/disks"), is_calm=not plan.kinds, has_segments=pipelines.drivers > 0
    )
    zones = draw_zones(seed, asked_zones, is_calm=not plan.kinds)
    forwarding = draw_forwarding(seed, zones.last_gateway, is_calm=not plan.kinds)
    for each in (pipelines, disks, forwarding):
        settings |= each.settings_of_gateways
    plan = plan.with_pipelines(pipelines).with_losses(losses).with_disks(disks)
    moves = draw_moves(seed, is_calm=not plan.kinds, all_reach_log=not forwarding.only_forward)
    plan = plan.with_forwarding(forwarding).with_zones(zones).with_moves(moves)
    has_drains = draws_drains(seed, has_wrong_clocks=plan.has_wrong_clocks)
    has_away = draws_away(
        seed,
        is_looked_for=zones.is_probed,
        is_calm=not plan.kinds,
        has_wrong_clocks=plan.has_wrong_clocks,
    )
    versions = draw_versions(
        seed,
        is_calm=not plan.kinds,
        may_be_late=not (has_drains or has_away or plan.has_wrong_clocks),
        may_roll=not disks.kinds,
    )
    drawn = {DRAIN_KIND: has_drains, AWAY_KIND: has_away}
    events = [kind for kind, is_drawn in drawn.items() if is_drawn]
    refusals = draw_refusals(seed, is_calm=not plan.kinds)
    settings |= settings_for(refusals)
    plan, of_clients = _with_clients(seed, plan, versions, events)
    return settings | of_clients, plan.with_events(*refusals)


def _with_clients(
    seed: int, plan: FaultPlan, versions: VersionPlan, events: Sequence[str]
) -> tuple[FaultPlan, dict[str, str]]:
    """Return a plan with what clients do, and with the further events; and settings for it."""
    settings: dict[str, str] = {}
    static = draw_static(seed, plan.zones.last_gateway, may_draw=not versions.is_rolling)
    # In restored logs, and in logs of older releases, numbers begin at 0.
    may_begin_high = not (versions.is_rolling or draws_restore(seed))
    beginnings = draw_beginnings(seed, may_begin_high=may_begin_high)
    settings |= draw_expiries(seed, may_draw=not plan.has_wrong_clocks)
    transactions = draw_transaction_plan(seed, may_expire=not plan.has_wrong_clocks)
    settings |= transactions.settings
    may_link = not (versions.is_rolling or beginnings.begins_high or draws_restore(seed))
    links = draw_links(seed, may_draw=may_link, is_calm=not plan.kinds)
    settings |= links.settings
    rights = draw_rights(seed, may_draw=not (versions.is_rolling or draws_restore(seed)))
    settings |= rights.settings
    plan = replace(
        plan.with_versions(versions),
        rights=rights,
        static=static,
        beginnings=beginnings,
        transactions=transactions,
    ).with_links(links)
    plan = plan.with_events(*events)
    logins = draw_logins(
        seed,
        may_draw=not (versions.is_rolling or draws_restore(seed)),
        is_calm=not plan.kinds,
        may_focus=not (links.is_on or transactions.is_on),
        has_right_clocks=not plan.has_wrong_clocks,
        has_acls=rights.is_on,
    )
    may_share = not (versions.is_rolling or draws_restore(seed) or plan.has_wrong_clocks)
    # If clients log in, a producer has a quota that each gateway counts for itself.
    quotas = draw_quotas(seed, may_draw=may_share and not logins.is_on)
    malformed = draw_malformed(seed)
    settings |= logins.settings | quotas.settings | malformed.settings | draw_inlining(seed)
    if logins.sealing.is_on:
        plan = replace(plan, kinds=(*plan.kinds, REPLACED))
    plan = replace(plan, logins=logins, quotas=quotas, malformed=malformed)
    return plan, settings
