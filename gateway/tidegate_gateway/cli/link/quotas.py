"""Runs `tidegate link quotas`: compares the client quotas of a source with those here, and sets
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ...migration.carry.quota_plan import QuotaPlan, QuotaStep, carry_quotas, quota_plan
from ...migration.carry.source_security import entity_text, source_quotas
from ...quotas.sharing.scope import Scope
from ..existing_cluster import NOT_DONE, ClusterOptions, run_told
from ..output.table import counted, listed, printable
from .carrying import CarryOptions, agreed_to_all, both_sides


def run_quotas(cluster: ClusterOptions, options: CarryOptions, *, as_json: bool) -> int:
    """Show what differs, and change it here if that is wanted; return the exit code."""

    async def work() -> int:
        options.check_json(as_json=as_json)
        sides = both_sides(cluster, options.name, options.client_properties)
        async with sides as (coordinator, _, source):

            async def planned() -> QuotaPlan:
                theirs = await source_quotas(source)
                await coordinator.catch_up()
                return quota_plan(theirs, coordinator.state.quotas, prunes=options.prunes)

            async def is_as_shown() -> bool:
                return (await planned()).asks_as(plan)

            plan = await planned()
            if not as_json:
                brokers, gateways = source.metadata.brokers, coordinator.state.gateways.brokers()
                is_shared = Scope(coordinator.state, own=False).of_cluster()
                print(quotas_text(plan, len(brokers), len(gateways), is_shared=is_shared))
            done, problem = 0, ""
            if plan.changes and not options.is_trial:
                question = f"Change {counted(len(plan.changes), 'quota')} here?"
                if not await agreed_to_all(question, is_as_shown, yes=options.yes):
                    return NOT_DONE
                done, problem = await carry_quotas(coordinator, plan)
        result = QuotaResult(plan, done, problem, options.is_trial)
        print(quotas_json(result) if as_json else done_text(result))
        return 0 if result.is_well else NOT_DONE

    return run_told(work)


class QuotaResult(NamedTuple):
    """The differences, and how many changes were made.

    problem: why the remaining changes failed, or "".
    """

    plan: QuotaPlan
    done: int
    problem: str
    is_trial: bool

    @property
    def is_well(self) -> bool:
        """Return whether nothing of the source is missing or different here."""
        is_done = not self.plan.changes or not (self.is_trial or self.problem)
        return is_done and not self.plan.not_carried


def quotas_text(plan: QuotaPlan, brokers: int, gateways: int, *, is_shared: bool) -> str:
    """Return a text about the quotas that differ.  is_shared: the gateways have
    quota.scope=cluster.
    """
    head = "only here, to be removed:" if plan.prunes else "only here:"
    lines = [
        *listed("not here as at the source:", [_row(each) for each in plan.steps]),
        *listed(head, [_row(each) for each in plan.only_here], shows_all=plan.prunes),
        *listed(
            "cannot be carried over:",
            [
                [printable(each.quota.text), printable(each.quota.key), printable(each.why)]
                for each in plan.not_carried
            ],
        ),
        f"{counted(plan.equal, 'quota')} of the source {'is' if plan.equal == 1 else 'are'} here.",
        *_places(brokers, gateways, is_shared=is_shared),
    ]
    return "\n".join(lines)


def _places(brokers: int, gateways: int, *, is_shared: bool) -> Iterator[str]:
    """Yield a line if a quota holds at more or fewer places here than at the source."""
    if is_shared and brokers > 1:
        yield (
            "The gateways share quotas (quota.scope=cluster): bytes and mutations hold once here,"
            f" and at each of the {brokers} brokers there."
        )
    elif not is_shared and gateways and brokers != gateways:
        yield (
            f"A quota holds at each broker, and at each gateway: {brokers} there, {gateways} here."
        )


def _row(step: QuotaStep) -> list[str]:
    entity, key, value = step.change.entity, step.change.key, step.change.value
    before = "" if step.before is None else f"{step.before:.12g} "
    after = "" if value is None else f"-> {value:.12g}"
    return [printable(entity_text(entity.parts())), key, before + after]


def done_text(result: QuotaResult) -> str:
    """Return a text about the changes that were made."""
    if not result.plan.changes:
        is_lacking = bool(result.plan.not_carried)
        return "Nothing can be changed." if is_lacking else "Nothing is to be changed."
    if result.is_trial:
        return f"Nothing was changed: {counted(len(result.plan.changes), 'quota')} would be."
    text = f"{counted(result.done, 'quota')} changed."
    return f"{text} Not all: {result.problem} Run the command again." if result.problem else text


def quotas_json(result: QuotaResult) -> str:
    """Return the result as JSON."""
    plan = result.plan
    return json.dumps(
        {
            "equal": plan.equal,
            "different": _dicts(plan.steps),
            "only_here": _dicts(plan.only_here),
            "not_carried": [
                {
                    "entity": dict(each.quota.entity),
                    "key": each.quota.key,
                    "source": each.quota.value,
                    "why": each.why,
                }
                for each in plan.not_carried
            ],
            "changed": result.done,
            "problem": result.problem or None,
        }
    )


def _dicts(steps: Sequence[QuotaStep]) -> list[dict[str, Any]]:
    """Return the steps as builtins; as in Kafka, the name of a default entity is null."""
    return [
        {
            "entity": {kind: name or None for kind, name in each.change.entity.parts()},
            "key": each.change.key,
            "source": each.change.value,
            "here": each.before,
        }
        for each in steps
    ]
