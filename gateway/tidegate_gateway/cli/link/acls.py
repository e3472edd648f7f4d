"""Runs `tidegate link acls`: compares the ACLs of a source with those here, and adds them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.security.acls import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidegate_coordination.state.migration.links import Link

from ...migration.carry.acl_changes import Carried, carry_acls
from ...migration.carry.acl_notes import Noted
from ...migration.carry.acl_plan import AclPlan, acl_plan
from ...migration.carry.acl_scope import Names, Scope
from ...migration.carry.source_security import source_acls
from ...migration.mirror.source_topics import wanted
from ...migration.survey.own_names import link_topics, own_names
from ..existing_cluster import NOT_DONE, ClusterOptions, run_told
from ..output.table import counted, listed, printable
from .carrying import (
    NO_AUTHORIZER_HERE,
    CarryOptions,
    agreed_to_all,
    authorizer_here,
    both_sides,
)
from .commands import known_link

NO_ACLS = "The source has no authorizer, so it has no ACLs: there every client may do everything."


def run_acls(
    cluster: ClusterOptions, options: CarryOptions, *, only_linked: bool, as_json: bool
) -> int:
    """Show what differs, and change it here if that is wanted; return the exit code."""

    async def work() -> int:
        options.check_json(as_json=as_json)
        sides = both_sides(cluster, options.name, options.client_properties)
        async with sides as (coordinator, _, source):
            compared = partial(compared_now, coordinator, source, options, only_linked=only_linked)

            async def is_as_shown() -> bool:
                again = await compared()
                return again is not None and again.plan.asks_as(plan)

            found = await compared()
            if found is None:
                print(json.dumps({"has_authorizer": False}) if as_json else NO_ACLS)
                return 0
            plan = found.plan
            has_here = await authorizer_here(coordinator.state)
            if not as_json:
                print(acls_text(found))
                if found.is_any and has_here is False:
                    print(NO_AUTHORIZER_HERE)
            done = Carried(0, 0)
            if not plan.is_done and not options.is_trial:
                if not await agreed_to_all(_question(plan), is_as_shown, yes=options.yes):
                    return NOT_DONE
                done = await carry_acls(coordinator, plan)
        result = AclResult(found, done, options.is_trial, has_here)
        print(acls_json(result) if as_json else done_text(result))
        return 0 if result.is_well else NOT_DONE

    return run_told(work)


class Compared(NamedTuple):
    """The differences between the ACLs of both sides.  is_any: whether the source has any ACL.

    taken: topics of the source that the link cannot mirror, since other topics here have the same
    names; each with its reason.  ACLs of these names do not belong to the link.
    """

    plan: AclPlan
    is_any: bool
    taken: Mapping[str, str]


async def compared_now(
    coordinator: Coordinator, source: ClassicCluster, options: CarryOptions, *, only_linked: bool
) -> Compared | None:
    """Compare both sides as they are now; return None if the source has no authorizer."""
    theirs = await source_acls(source)
    if theirs is None:
        return None
    metadata = await source.refresh()
    await coordinator.catch_up()
    state = coordinator.state
    link = known_link(state, options.name)
    topics = link_topics(state, link, wanted(link, metadata))
    scope = _scope(link, topics.names, only_linked=only_linked)
    own = own_names(state, link, topics.names)
    plan = acl_plan(theirs, state.acls, scope, own, prunes=options.prunes)
    return Compared(plan, bool(theirs), topics.taken)


def _scope(link: Link, topics: frozenset[str], *, only_linked: bool) -> Scope:
    if not only_linked:
        return Scope(is_all=True)
    return Scope(False, Names(topics), link.groups, link.transactional_ids)


class AclResult(NamedTuple):
    """The differences, and the changes that were made.

    has_here: whether the gateways have an authorizer; None if no gateway says.
    """

    found: Compared
    done: Carried
    is_trial: bool
    has_here: bool | None

    @property
    def is_well(self) -> bool:
        """Return whether all of the source's ACLs are here, and all unwanted ones are removed."""
        plan = self.found.plan
        return not plan.not_carried and (plan.is_done or not (self.is_trial or self.done.problem))


def _question(plan: AclPlan) -> str:
    if not plan.removed:
        return f"Add {counted(len(plan.added), 'ACL')} here?"
    removed = counted(len(plan.removed), "ACL")
    return f"Add {counted(len(plan.added), 'ACL')} here, and remove {removed}?"


def acls_text(found: Compared) -> str:
    """Return a text about the ACLs that differ."""
    plan, removed = found.plan, set(found.plan.removed)
    kept = [each for each in plan.only_here if each not in removed]
    taken = [[f"TOPIC {printable(name)}", why] for name, why in sorted(found.taken.items())]
    lines = [
        *listed("at the source, and not here:", [_row(each) for each in plan.added]),
        *listed("only here, to be removed:", list(map(_row, plan.removed)), shows_all=True),
        *listed("only here:", [_row(each) for each in kept]),
        *listed("cannot be carried over:", [_noted(each) for each in plan.not_carried]),
        *listed("not topics of the link:", taken),
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
    """Return the name of a number; numbers from a newer source may have no name here."""
    return kind(number).name if number in list(kind) else str(number)


def done_text(result: AclResult) -> str:
    """Return a text about the changes that were made."""
    plan, done = result.found.plan, result.done
    if plan.is_done:
        return "Nothing can be changed." if plan.not_carried else "Nothing is to be changed."
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
    """Return the result as JSON."""
    plan, done = result.found.plan, result.done
    return json.dumps(
        {
            "has_authorizer": True,
            "gateways_have_authorizer": result.has_here,
            "equal": plan.equal,
            "missing": _dicts(plan.added),
            "only_here": _dicts(plan.only_here),
            "to_remove": _dicts(plan.removed),
            "not_carried": [{**_dict(each.acl), "why": each.why} for each in plan.not_carried],
            "notes": [{**_dict(each.acl), "why": each.why} for each in plan.notes],
            "names_taken": dict(sorted(result.found.taken.items())),
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
