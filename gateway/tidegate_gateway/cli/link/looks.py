"""Runs `tidegate link check` and `plan`: looks at a source, and changes nothing anywhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tidegate_coordination.client.errors import ClassicError
from tidegate_coordination.client.opened_source import opened_source
from tidegate_coordination.name_patterns import BadPattern
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.migration.links import Link
from tidegate_runtime.settings_texts import BadSource

from ...migration.mirror.source_topics import TopicPatterns
from ...migration.survey.looking import ACLS, NO_ACLS, Candidate, Finding, candidates_of, findings
from ..existing_cluster import NOT_DONE, ClusterOptions, opened_cluster, run_told
from ..output.table import aligned, counted, mark, printable
from .carrying import AUTHORIZER_ONLY_HERE, NO_AUTHORIZER_HERE, authorizer_here
from .commands import known_link
from .rehearsed import Rehearsed, rehearsal_of, rehearsed_dict, rehearsed_text

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LookOptions:
    """The options as typed: the name of a link, or the properties of a planned link."""

    name: str | None
    bootstrap_servers: str | None
    topics: tuple[str, ...]
    client_properties: Path | None


def _link(state: ClusterState, options: LookOptions) -> Link:
    try:
        TopicPatterns(options.topics)
    except BadPattern as error:
        raise BadSource(f"--topics: {error}") from None
    if options.name is not None:
        link = known_link(state, options.name)
        servers = options.bootstrap_servers or link.bootstrap_servers
        topics = options.topics or link.topics
        return Link(link.name, link.cluster_id, servers, topics)
    if options.bootstrap_servers is None:
        raise BadSource("name a link, or give the --bootstrap-servers of a source")
    return Link("", "", options.bootstrap_servers, options.topics or (".*",))


def run_check(cluster: ClusterOptions, options: LookOptions, *, as_json: bool) -> int:
    """Print what a link needs, and whether it is there; return the exit code."""

    async def work() -> int:
        async with opened_cluster(cluster) as coordinator:
            link = _link(coordinator.state, options)
            async with opened_source(link.bootstrap_servers, options.client_properties) as source:
                found = await findings(source, link, coordinator.state)
            found += authorizer_findings(found, await authorizer_here(coordinator.state))
        print(_check_json(found) if as_json else _check_text(found))
        return NOT_DONE if any(each.problem for each in found) else 0

    return run_told(work)


def authorizer_findings(found: Sequence[Finding], here: bool | None) -> list[Finding]:
    """Return findings about the gateways' authorizer.  here: None if unknown."""
    said = {each.what for each in found}
    what = "the gateways have an authorizer if the source has one"
    if here is False and ACLS in said:
        return [Finding(what, warning=NO_AUTHORIZER_HERE)]
    if here and NO_ACLS in said:
        return [Finding(what, warning=AUTHORIZER_ONLY_HERE)]
    return []


def _check_text(found: Sequence[Finding]) -> str:
    return "\n".join(
        f"{_mark(each)} {printable(each.what)}"
        + (f": {printable(text)}" if (text := each.problem or each.warning) else "")
        for each in found
    )


def _mark(found: Finding) -> str:
    return "warning" if found.warning and not found.problem else mark(not found.problem)


def _check_json(found: Sequence[Finding]) -> str:
    return json.dumps(
        [
            {
                "what": each.what,
                "problem": each.problem or None,
                "warning": each.warning or None,
            }
            for each in found
        ]
    )


def run_plan(
    cluster: ClusterOptions,
    options: LookOptions,
    *,
    mib_per_second: float,
    rehearses: bool,
    as_json: bool,
) -> int:
    """Print the topics, their sizes, and how long the copy may take; return the exit code."""

    async def work() -> int:
        async with opened_cluster(cluster) as coordinator:
            link = _link(coordinator.state, options)
            rehearsed: Rehearsed | None = None
            try:
                async with opened_source(
                    link.bootstrap_servers, options.client_properties
                ) as source:
                    found = await candidates_of(source, link, coordinator.state)
                    if rehearses:
                        append_seconds = coordinator.typical_append_seconds
                        rehearsed = await rehearsal_of(
                            source, found, mib_per_second, append_seconds
                        )
            except ClassicError as error:
                raise BadSource(str(error)) from None
        if as_json:
            print(_plan_json(found, rehearsed))
        else:
            print(_plan_text(found, mib_per_second if rehearsed is None else None))
            print(rehearsed_text(rehearsed) if rehearsed is not None else "", end="")
        is_well = rehearsed is None or not rehearsed.problems
        return 0 if is_well and not any(each.obstacle for each in found) else NOT_DONE

    return run_told(work)


def _plan_text(found: Sequence[Candidate], mib_per_second: float | None) -> str:
    if not found:
        return "No topic of the source matches."
    cells = [("topic", "partitions", "offsets", "MiB", "")]
    cells += [
        (
            printable(each.name),
            str(each.partitions),
            "?" if each.offsets is None else str(each.offsets),
            "?" if each.size_bytes is None else f"{each.size_bytes / _MIB:.1f}",
            _standing(each),
        )
        for each in found
    ]
    lines = aligned(cells)
    sizes = [each.size_bytes for each in found if not each.is_mirrored and not each.obstacle]
    known = [each for each in sizes if each is not None]
    lines.append(f"{len(found)} topics, {sum(each.partitions for each in found)} partitions.")
    if sizes and len(known) == len(sizes) and mib_per_second is not None:
        total = sum(known) / _MIB
        minutes = total / mib_per_second / 60
        lines.append(
            f"New ones hold {total:.0f} MiB: about {minutes:.1f} min at {mib_per_second:g} MiB/s."
        )
    elif sizes and len(known) < len(sizes):
        lines.append("Their size needs the right to DESCRIBE the source's cluster.")
    if any(each.missing_acls is None for each in found):
        lines.append("Their ACLs were not compared; `tidegate link check` says why.")
    elif any(each.missing_acls for each in found):
        lines.append("ACLs of the source are not here: see `tidegate link acls`.")
    return "\n".join(lines)


def _standing(candidate: Candidate) -> str:
    if candidate.obstacle:
        return f"PROBLEM: {candidate.obstacle}"
    standing = "mirrored" if candidate.is_mirrored else "new"
    if not candidate.missing_acls:
        return standing
    return f"{standing}, without {counted(candidate.missing_acls, 'ACL')} of the source"


def _plan_json(found: Sequence[Candidate], rehearsed: Rehearsed | None) -> str:
    topics = [asdict(each) for each in found]
    if rehearsed is None:
        return json.dumps(topics)
    return json.dumps({"topics": topics, "rehearsal": rehearsed_dict(rehearsed)})
