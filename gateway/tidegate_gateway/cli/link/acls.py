"""Runs `tidegate link acls`: compares the ACLs of a source with those here, and adds them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from tidegate_coordination.classic.cluster import ClassicCluster
from tidegate_coordination.security.acls import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.links import Link

from ...links.acl_carrying import Carried, carry_acls
from ...links.acl_plan import AclPlan, Noted, Scope, acl_plan
from ...links.source_security import source_acls
from ...links.source_topics import wanted
from ..existing_cluster import NOT_DONE, ClusterOptions, run_told
from ..table import printable
from .carrying import (
    NO_AUTHORIZER_HERE,
    CarryOptions,
    agreed,
    authorizer_here,
    both_sides,
    counted,
    listed,
)

NO_ACLS = "The source has no authorizer, so it has no ACLs: there every client may do everything."


def run_acls(
    cluster: ClusterOptions, options: CarryOptions, *, only_linked: bool, as_json: bool
) -> int:
    """Show what differs, and change it here if that is wanted; return the exit code."""

    async def work() -> int:
        options.check_json(as_json=as_json)
        sides = both_sides(cluster, options.name, options.client_properties)
        async with sides as (coordinator, link, source):
            theirs = await source_acls(source)
            if theirs is None:
                print(json.dumps({"has_authorizer": False}) if as_json else NO_ACLS)
                return 0
            linked = await _topics(coordinator.state, link, source)
            scope = _scope(link, linked, only_linked=only_linked)
            state = coordinator.state
            own = sorted(each for each in state.topics.by_name if each not in linked)
            plan = acl_plan(theirs, state.acls, scope, own, prunes=options.prunes)
            if not as_json:
                print(acls_text(plan))
                if theirs and await authorizer_here(state) is False:
                    print(NO_AUTHORIZER_HERE)
            done = Carried(0, 0)
            if not plan.is_done and not options.is_trial:
                if not await agreed(_question(plan), yes=options.yes):
                    return NOT_DONE
                done = await carry_acls(coordinator, plan)
        result = AclResult(plan, done, options.is_trial)
        print(acls_json(result) if as_json else done_text(result))
        return 0 if result.is_well else NOT_DONE

    return run_told(work)


async def _topics(state: ClusterState, link: Link, source: ClassicCluster) -> frozenset[str]:
    """Return the names of the topics of a link, also of those that it has not yet mirrored."""
    there = {each.name for each in wanted(link, await source.refresh())}
    return frozenset(there | {each.name for each in state.links.topics_of(link.name)})


def _scope(link: Link, topics: frozenset[str], *, only_linked: bool) -> Scope:
    if not only_linked:
        return Scope(is_all=True)
    return Scope(False, topics, link.groups, link.transactional_ids)


class AclResult(NamedTuple):
    """What differed, and what was done."""

    plan: AclPlan
    done: Carried
    is_trial: bool

    @property
    def is_well(self) -> bool:
        """Return whether nothing is left to be changed."""
        return self.plan.is_done or not (self.is_trial or self.done.problem)


def _question(plan: AclPlan) -> str:
    if not plan.removed:
        return f"Add {counted(len(plan.added), 'ACL')} here?"
    removed = counted(len(plan.removed), "ACL")
    return f"Add {counted(len(plan.added), 'ACL')} here, and remove {removed}?"


def acls_text(plan: AclPlan) -> str:
    """Return what differs, for a person."""
    kept = [each for each in plan.only_here if each not in set(plan.removed)]
    lines = [
        *listed("at the source, and not here:", [_row(each) for each in plan.added]),
        *listed("only here, to be removed:", list(map(_row, plan.removed)), shows_all=True),
        *listed("only here:", [_row(each) for each in kept]),
        *listed("cannot be carried over:", [_noted(each) for each in plan.not_carried]),
        *listed("note:", [_noted(each) for each in plan.notes]),
        f"{counted(plan.equal, 'ACL')} of the source {'is' if plan.equal == 1 else 'are'} here.",
    ]
    return "\n".join(lines)


def _row(acl: Acl) -> list[str]:
    prefix = "prefix " if acl.pattern_type == PatternType.PREFIXED else ""
    return [
        _name(Permission, acl.permission),
        printable(acl.principal),
        _name(Operation, acl.operation),
        f"{_name(ResourceType, acl.resource_type)} {prefix}{printable(acl.name)}",
        "" if acl.host == "*" else f"from {printable(acl.host)}",
    ]


def _noted(noted: Noted) -> list[str]:
    return [*_row(noted.acl), printable(noted.why)]


def _name(kind: type[IntEnum], number: int) -> str:
    """Return the name of a number; a newer source has some without one here."""
    return kind(number).name if number in list(kind) else str(number)


def done_text(result: AclResult) -> str:
    """Return what was done, for a person."""
    plan, done = result.plan, result.done
    if plan.is_done:
        return "Nothing is to be changed."
    if result.is_trial:
        added, removed = len(plan.added), len(plan.removed)
        return f"Nothing was changed: {added} would be added, and {removed} removed."
    lines = [f"{counted(done.added, 'ACL')} added, what denies before what allows."]
    if plan.removed:
        lines.append(f"{counted(done.removed, 'ACL')} removed.")
    if done.problem:
        lines.append(f"Not all: {done.problem} Run the command again.")
    return "\n".join(lines)


def acls_json(result: AclResult) -> str:
    """Return all of it, for scripts."""
    plan, done = result.plan, result.done
    return json.dumps(
        {
            "has_authorizer": True,
            "equal": plan.equal,
            "missing": _dicts(plan.added),
            "only_here": _dicts(plan.only_here),
            "to_remove": _dicts(plan.removed),
            "not_carried": [{**_dict(each.acl), "why": each.why} for each in plan.not_carried],
            "notes": [{**_dict(each.acl), "why": each.why} for each in plan.notes],
            "added": done.added,
            "removed": done.removed,
            "problem": done.problem or None,
        }
    )


def _dicts(acls: Sequence[Acl]) -> list[dict[str, Any]]:
    return [_dict(each) for each in acls]


def _dict(acl: Acl) -> dict[str, Any]:
    return {
        "permission": _name(Permission, acl.permission),
        "principal": acl.principal,
        "operation": _name(Operation, acl.operation),
        "resource_type": _name(ResourceType, acl.resource_type),
        "pattern_type": _name(PatternType, acl.pattern_type),
        "name": acl.name,
        "host": acl.host,
    }
