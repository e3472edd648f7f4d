"""Runs `tidegate group seek` and `delete`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.consumer.positions import read_position
from tidegate_coordination.client.groups import group_calls, seeking
from tidegate_coordination.client.groups.seeking import Move, read_target

from ..asking import agreed, check_json
from ..kafka.cluster import NOT_DONE, run_client
from ..kafka.deleting import delete_each
from ..kafka.options import KafkaPlace
from ..output.table import aligned, counted, printable


@dataclass(frozen=True, slots=True)
class SeekOptions:
    """The options as typed."""

    group: str
    targets: tuple[str, ...]
    to: str
    is_dry: bool = False
    yes: bool = False


def run_seek(place: KafkaPlace, options: SeekOptions, *, as_json: bool) -> int:
    """Change a group's offsets; return the exit code."""
    return run_client(place, lambda cluster: seek(cluster, options, as_json=as_json))


async def seek(cluster: ClassicCluster, options: SeekOptions, *, as_json: bool) -> int:
    """Change a group's offsets; return the exit code; raises as run_client() expects."""
    check_json(as_json=as_json, asks=not (options.yes or options.is_dry))
    to = read_position(options.to, "--to", shifts=True)
    targets = [read_target(each) for each in options.targets]
    await seeking.check_idle(cluster, options.group)
    moves = await seeking.planned(cluster, options.group, targets, to)
    if not as_json:
        print(_moves_text(moves), flush=True)
    if options.is_dry:
        print(_moves_json(options.group, moves, done=False) if as_json else "Nothing was changed.")
        return 0
    question = f"Set these offsets of group {printable(options.group)}?"
    if not await agreed(question, yes=options.yes):
        return NOT_DONE
    await seeking.check_idle(cluster, options.group)  # the person may have taken hours to answer
    await seeking.move(cluster, options.group, moves)
    done = f"{counted(len(moves), 'offset')} of group {printable(options.group)} set."
    print(_moves_json(options.group, moves, done=True) if as_json else done)
    return 0


def _moves_text(moves: Sequence[Move]) -> str:
    cells = [("TOPIC", "PARTITION", "BEFORE", "AFTER", "")]
    cells += [
        (
            printable(each.topic),
            str(each.partition),
            "-" if each.before is None else str(each.before),
            str(each.after),
            each.note,
        )
        for each in moves
    ]
    return "\n".join(aligned(cells))


def _moves_json(group: str, moves: Sequence[Move], *, done: bool) -> str:
    offsets = [each._asdict() | {"note": each.note or None} for each in moves]
    return json.dumps({"name": group, "changed": done, "offsets": offsets})


def run_delete(place: KafkaPlace, groups: Sequence[str], *, yes: bool, as_json: bool) -> int:
    """Delete groups; return the exit code."""
    return run_client(place, lambda cluster: delete(cluster, groups, yes=yes, as_json=as_json))


async def delete(
    cluster: ClassicCluster, groups: Sequence[str], *, yes: bool, as_json: bool
) -> int:
    """Delete groups; return the exit code; raises as run_client() expects."""
    check_json(as_json=as_json, asks=not yes)
    names = list(dict.fromkeys(groups))
    which = ", ".join(map(printable, names))
    if not await agreed(f"Delete {which} with all offsets, for good?", yes=yes):
        return NOT_DONE
    return await delete_each("group", names, partial(group_calls.delete, cluster), as_json=as_json)
