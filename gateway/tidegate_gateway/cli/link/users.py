"""Runs `tidegate link users`: shows the SCRAM users of a source, and gives them new passwords here.

A source does not show the keys of its users, so their old passwords cannot be carried over.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.rules.security.acls import SECURITY_NOT_YET
from tidegate_coordination.rules.security.parts import parts
from tidegate_coordination.rules.security.scram import (
    AlterScramCredentials,
    ScramRefusal,
    size_bytes,
)
from tidegate_coordination.state.security.scram import ScramCredential, ScramMechanism, ScramTable
from tidegate_runtime.settings_texts import BadSource

from ...migration.carry.scram_plan import ScramUser, credentials, scram_users
from ...migration.carry.source_security import source_users
from ...security.sealing import SEALS_NOT_YET, Sealing
from ..asking import agreed, check_json
from ..existing_cluster import NOT_DONE, ClusterOptions, run_told
from ..output.table import counted, listed, printable
from .carrying import both_sides
from .password_file import made_passwords, read_passwords, write_passwords
from .secret_key import doubt, sealing_with

_SALT_BYTES: Final = 20


@dataclass(frozen=True, slots=True)
class UserOptions:
    """The options as typed.

    users: the wanted users; all if empty.  replaces: also set passwords of users that are here
    already.  secret_key: the file with the gateways' metadata.secret.key.  is_plain: the gateways
    have no such key.
    """

    name: str
    users: tuple[str, ...]
    generate: Path | None
    passwords: Path | None
    replaces: bool
    yes: bool
    client_properties: Path | None
    secret_key: Path | None = None
    is_plain: bool = False

    @property
    def sets(self) -> bool:
        """Return whether the command sets passwords."""
        return self.generate is not None or self.passwords is not None

    def check(self, *, as_json: bool) -> None:
        """Check that the options fit each other.

        Raises:
          BadSource: two options contradict each other.
        """
        if self.generate is not None and self.passwords is not None:
            raise BadSource("give --generate or --passwords, not both")
        if self.secret_key is not None and self.is_plain:
            raise BadSource("give --secret-key or --plain, not both")
        check_json(as_json=as_json, asks=self.sets and not self.yes)


class UserResult(NamedTuple):
    """The users of the source, and the users whose password was set.

    problem: why the remaining passwords could not be set, or "".
    """

    users: list[ScramUser]
    done: list[str]
    problem: str = ""


def run_users(cluster: ClusterOptions, options: UserOptions, *, as_json: bool) -> int:
    """Show the users, and set passwords if that is wanted; return the exit code."""

    async def work() -> int:
        options.check(as_json=as_json)
        given = given_passwords(options)
        sides = both_sides(cluster, options.name, options.client_properties)
        async with sides as (coordinator, _, source):
            found = scram_users(await source_users(source), coordinator.state.scram)
            users = _named(found, options.users)
            if not as_json:
                print(users_text(users))
            result = UserResult(users, [])
            if options.sets:
                file, is_plain = options.secret_key, options.is_plain
                sealing = sealing_with(file, coordinator.state, is_plain=is_plain)
                chosen = chosen_users(users, options, given)
                if chosen and (text := doubt(sealing, coordinator.state)):
                    print(text, file=sys.stderr, flush=True)
                question = f"Set the password of {counted(len(chosen), 'user')} here?"
                if chosen and not await agreed(question, yes=options.yes):
                    return NOT_DONE
                await coordinator.catch_up()  # the person may have taken hours to answer
                users = as_now(users, coordinator.state.scram)
                chosen = still_chosen(chosen, users, options)
                passwords = given
                if options.generate is not None and chosen:
                    passwords = made_passwords(each.name for each in chosen)
                    write_passwords(options.generate, passwords)
                result = await _set(coordinator, sealing, users, chosen, passwords)
        print(users_json(result) if as_json else done_text(result, options))
        return NOT_DONE if result.problem else 0

    return run_told(work)


def given_passwords(options: UserOptions) -> dict[str, str]:
    """Return the passwords in the file, or of the named users only; {} without a file.

    Raises:
      BadSource: the file lacks a named user, or see read_passwords().
    """
    if options.passwords is None:
        return {}
    given = read_passwords(options.passwords)
    for name in options.users:
        if name not in given:
            raise BadSource(f"--passwords {options.passwords}: user {name!r} is not in it")
    return {each: given[each] for each in options.users or given}


def _named(found: list[ScramUser], names: tuple[str, ...]) -> list[ScramUser]:
    known = {each.name: each for each in found}
    for name in names:
        if name not in known:
            raise BadSource(f"the source has no SCRAM user {name!r}")
    return [known[each] for each in dict.fromkeys(names)] if names else found


def chosen_users(
    users: Sequence[ScramUser], options: UserOptions, given: Mapping[str, str]
) -> list[ScramUser]:
    """Return the users whose password is to be set.  given: passwords of the file, if there is one.

    Users that are here already keep their passwords, unless the options replace them.  So the
    command can be repeated.

    Raises:
      BadSource: the file has a user whose password cannot be set.
    """
    known = {each.name: each for each in users}
    for name in given:
        user = known.get(name)
        if user is None:
            raise BadSource(f"--passwords: the source shows no SCRAM user {name!r}")
        if user.obstacle:
            raise BadSource(f"--passwords: user {name!r}: {user.obstacle}")
    return [
        each
        for each in users
        if not each.obstacle
        and (options.replaces or not each.is_here)
        and (options.passwords is None or each.name in given)
    ]


def as_now(users: Sequence[ScramUser], ours: ScramTable) -> list[ScramUser]:
    """Return the users with the mechanisms that they have here now."""
    now = {each.name: each for each in scram_users({u.name: u.mechanisms for u in users}, ours)}
    return [now[each.name] for each in users]


def still_chosen(
    chosen: Sequence[ScramUser], users: Sequence[ScramUser], options: UserOptions
) -> list[ScramUser]:
    """Return the chosen users, without those that have got a password meanwhile."""
    names = {each.name for each in chosen}
    return [each for each in users if each.name in names and (options.replaces or not each.is_here)]


async def _set(
    coordinator: Coordinator,
    sealing: Sealing,
    users: list[ScramUser],
    chosen: Sequence[ScramUser],
    passwords: Mapping[str, str],
) -> UserResult:
    """Set all credentials of a user in one entry of the log."""
    made: list[list[ScramCredential]] = []
    for user in chosen:
        makes = partial(credentials, user, passwords[user.name], _salts())
        made.append(await trio.to_thread.run_sync(makes, abandon_on_cancel=True))
    done: list[str] = []
    for part in parts(made, lambda each: sum(map(size_bytes, each))):
        rows = [row for each in part for row in each]
        try:
            refusals = await coordinator.propose(_proposal(rows, sealing))
        except ProposalFailed as failure:
            return UserResult(users, done, str(failure))
        refusal = next((each for each in refusals if each is not None), None)
        if refusal is not None:
            early = SEALS_NOT_YET if sealing.seals else SECURITY_NOT_YET
            is_early = refusal is ScramRefusal.NOT_YET
            return UserResult(users, done, early if is_early else refusal.value)
        done += [each[0].user for each in part]
    return UserResult(users, done)


def _proposal(rows: Sequence[ScramCredential], sealing: Sealing) -> AlterScramCredentials:
    if sealing.seals:
        return AlterScramCredentials((), sealed=[sealing.sealed(each) for each in rows])
    return AlterScramCredentials(rows)


def _salts() -> Iterator[bytes]:
    while True:
        yield os.urandom(_SALT_BYTES)


def users_text(users: Sequence[ScramUser]) -> str:
    """Return the users of the source, for a person."""
    if not users:
        return "The source has no SCRAM user."
    rows = [
        [
            printable(each.name),
            ", ".join(
                f"{ScramMechanism(number).sasl_name} {iterations}"
                for number, iterations in sorted(each.mechanisms.items())
            ),
            _standing(each),
        ]
        for each in users
    ]
    return "\n".join(listed(f"{counted(len(users), 'SCRAM user')} at the source:", rows))


def _standing(user: ScramUser) -> str:
    if user.obstacle:
        return f"PROBLEM: {user.obstacle}"
    if not user.is_here:
        return "not here"
    names = ", ".join(ScramMechanism(each).sasl_name for each in sorted(user.missing))
    return f"here, without {names}" if names else "here"


def _lacking_text(users: Sequence[ScramUser]) -> str:
    """Return how many users cannot log in here yet: text for a command that sets no passwords."""
    if not users:
        return "Nothing is to be set."
    possible = [each for each in users if not each.obstacle]
    missing = sum(not each.is_here for each in possible)
    partly = sum(each.is_here and bool(each.missing) for each in possible)
    lines: list[str] = []
    if missing:
        lines.append(
            f"{counted(missing, 'user')} cannot log in here yet. The source does not tell passwords"
            " or keys: give new ones with --generate FILE or --passwords FILE."
        )
    if partly:
        lines.append(
            f"{counted(partly, 'user')} cannot log in here with all mechanisms: --replace gives a"
            " new password for all of them."
        )
    if not lines:
        is_all = len(possible) == len(users)
        lines.append("All of them are here." if is_all else "All that can be here are here.")
    return "\n".join(lines)


def done_text(result: UserResult, options: UserOptions) -> str:
    """Return a text about the changes that were made."""
    if not options.sets:
        return _lacking_text(result.users)
    lines = [f"{counted(len(result.done), 'user')} got a password here."]
    kept = sum(1 for each in result.users if each.is_here)
    if kept and not options.replaces:
        lines.append(f"{counted(kept, 'user')} had one, and kept it; --replace sets all anew.")
    if result.done and options.generate is not None:
        lines.append(f"They are in {options.generate}: hand them out, then delete the file.")
    if result.problem:
        again = f"--passwords {options.generate or options.passwords}"
        again += " --replace" if options.replaces else ""
        lines.append(f"Not all: {result.problem} Run it again with {again}.")
    return "\n".join(lines)


def users_json(result: UserResult) -> str:
    """Return the result as JSON, without passwords."""
    return json.dumps(
        {
            "users": [
                {
                    "name": each.name,
                    "mechanisms": {
                        ScramMechanism(number).sasl_name: iterations
                        for number, iterations in sorted(each.mechanisms.items())
                    },
                    "is_here": each.is_here,
                    "obstacle": each.obstacle or None,
                }
                for each in result.users
            ],
            "set": result.done,
            "problem": result.problem or None,
        }
    )
