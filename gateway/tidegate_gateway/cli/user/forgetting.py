"""Runs `tidegate user forget-sealed`, from any machine that reaches the metadata log.

A gateway that lacks the key of a credential does not start, and without a gateway no password can
be set.  So the command itself appends the removals, and needs no gateway.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.rules.security.parts import parts
from tidegate_coordination.rules.security.scram import (
    AlterScramCredentials,
    ScramDeletion,
    size_bytes,
)
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.security.scram import ScramMechanism, SealedCredential, fingerprint
from tidegate_runtime.secret import Secret
from tidegate_runtime.settings_texts import BadSource

from ...security.sealing import Sealing
from ..asking import agreed, check_json
from ..existing_cluster import NOT_DONE, ClusterOptions, opened_cluster, run_told
from ..key_file import read_key
from ..output.table import counted, listed, printable


@dataclass(frozen=True, slots=True)
class ForgetOptions:
    """The options as typed.  secret_keys: files of keys still in use.  every: no key is left."""

    secret_keys: tuple[Path, ...]
    every: bool
    yes: bool

    def check(self, *, as_json: bool) -> None:
        """Check that the options fit each other.

        Raises:
          BadSource: the options contradict each other.
        """
        if bool(self.secret_keys) is self.every:
            raise BadSource(
                "give --secret-key FILE for each key that the gateways still have, or --all if no"
                " key is left"
            )
        check_json(as_json=as_json, asks=not self.yes)


class Forgotten(NamedTuple):
    """Credentials that cannot be opened, and the removed ones among them.

    problem: why some were not removed.
    """

    closed: list[SealedCredential]
    removed: list[SealedCredential]
    problem: str = ""


def run_forget(cluster: ClusterOptions, options: ForgetOptions, *, as_json: bool) -> int:
    """Show the credentials that the keys do not open, and remove them; return the exit code."""

    async def work() -> int:
        options.check(as_json=as_json)
        keys = [read_key(each) for each in options.secret_keys]
        sealing = Sealing(Secret(), keys, os.urandom)
        async with opened_cluster(cluster) as coordinator:
            await coordinator.catch_up()
            closed = sealing.missing(coordinator.state.scram)
            if closed and not as_json:
                print(closed_text(closed, coordinator.state), flush=True)
            question = f"Remove {counted(len(closed), 'credential')} for good?"
            if closed and not await agreed(question, yes=options.yes):
                return NOT_DONE
            result = await forget(coordinator, closed)
        print(forgotten_json(result) if as_json else forgotten_text(result))
        return NOT_DONE if result.problem else 0

    return run_told(work)


async def forget(coordinator: Coordinator, closed: list[SealedCredential]) -> Forgotten:
    """Remove credentials, but not those that changed since they were read."""
    removed: list[SealedCredential] = []
    for part in parts(closed, lambda each: size_bytes(_deletion(each))):
        try:
            change = AlterScramCredentials((), [_deletion(each) for each in part])
            refusals = await coordinator.propose(change)
        except ProposalFailed as failure:
            return Forgotten(closed, removed, str(failure))
        removed += [each for each, why in zip(part, refusals, strict=True) if why is None]
    if len(removed) < len(closed):
        return Forgotten(closed, removed, "some were changed meanwhile.")
    return Forgotten(closed, removed)


def _deletion(each: SealedCredential) -> ScramDeletion:
    return ScramDeletion(each.user, each.mechanism, fingerprint(each))


def closed_text(closed: Sequence[SealedCredential], state: ClusterState) -> str:
    """Return text about the credentials to remove, and the reasons against their removal."""
    rows = [[printable(each.user), ScramMechanism(each.mechanism).sasl_name] for each in closed]
    lines = listed("Sealed with another key:", rows)
    if len(closed) == sum(isinstance(each, SealedCredential) for each in state.scram):
        lines.append("No sealed credential would be left: make sure that their key is lost.")
    if running := [str(each.node_id) for each in state.gateways.brokers()]:
        lines.append(
            f"Gateways are running ({', '.join(running)}): if one of them has the key, give it to"
            " the others instead (docs/operations/sasl.md)."
        )
    return "\n".join(lines)


def forgotten_text(result: Forgotten) -> str:
    """Return a text about the credentials that were removed."""
    if not result.closed:
        return "No credential is sealed with another key: nothing is to be removed."
    users = len({each.user for each in result.removed})
    lines = [f"{counted(len(result.removed), 'credential')} removed."]
    if users:
        need = "needs a new password: set it" if users == 1 else "need new passwords: set them"
        lines.append(f"{counted(users, 'user')} {need} with kafka-configs.sh.")
    if result.problem:
        lines.append(f"Not all: {result.problem.rstrip('.')}. Run it again.")
    return "\n".join(lines)


def forgotten_json(result: Forgotten) -> str:
    """Return the result as JSON."""
    removed = set(result.removed)
    return json.dumps(
        {
            "credentials": [
                {
                    "user": each.user,
                    "mechanism": ScramMechanism(each.mechanism).sasl_name,
                    "is_removed": each in removed,
                }
                for each in result.closed
            ],
            "problem": result.problem or None,
        }
    )
