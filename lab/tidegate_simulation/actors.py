"""The actors of a run: every client, by its name."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from .clients.admins import ConfigChanger, Grower, Retainer
from .clients.client import Client
from .clients.fleeting import FleetingReader, FleetingWriter, Lives, TopicOwner
from .clients.guarded import Ban, GuardedReader, GuardedWriter, Guardian
from .clients.guarded_admin import GuardedAdmin
from .clients.late_admins import ConfigSetter, Emptier, HastyEmptier, Reliver
from .clients.offsets_readers import OffsetsReader
from .clients.producers import IdempotentProducer, Newcomer, Pipeliner, PlainProducer
from .clients.readers import Admin, Reader
from .clients.seekers import Seeker
from .clients.twins import Twin, Wrapper, Zombie
from .clients.workload import Workload
from .logins import scram
from .logins.bearer_client import BearerClient
from .logins.known_tokens import KnownTokens
from .logins.login import PLAIN
from .logins.passwords import Guesser, PasswordKeeper, Passwords
from .logins.sessions import SessionClient
from .logins.strangers import Strangers
from .logins.throttled import ThrottledProducer
from .logins.token_client import TokenClient
from .logins.token_keeper import TokenKeeper
from .members.contenders import Contender, GroupDeleter, Resumer
from .members.groups import Committer, CommitterOfAll, Pauser
from .members.members import GroupMember
from .mirrors.forward_clients import Forwarder, ForwardPipeliner
from .mirrors.group_clients import GroupMover, RemoteCommitter, RemoteMember
from .mirrors.linker import Linker
from .mirrors.mirror_readers import MirrorReader
from .mirrors.source import Source
from .mirrors.source_clients import SourceKeeper, SourceWriter
from .mirrors.switcher import Switcher
from .mirrors.transaction_clients import NAMES as IDS
from .mirrors.transaction_clients import RemoteTransactor, UnitMover
from .plans.expiry_plan import PRODUCERS
from .probers.auditor import Auditor
from .probers.probers import GroupProber, WakeProber
from .transactions.cast import transactional_clients

LATE_SHARE: Final = 0.3
OFFSETS_READERS_SHARE: Final = 0.3
_LEISURE: Final = 4.0
_OF_LINKS: Final = (
    "linker",
    "source writer 1",
    "source writer 2",
    "source keeper",
    "mirror reader",
)
_FEW: Final = frozenset(
    {"producer 1", "plain producer", "reader 1", "admin", "auditor", *_OF_LINKS}
)


class Actor(Protocol):
    """One working client."""

    client: Client

    async def run(self) -> None:
        """Work until the workload has no operation left."""
        ...


def make_actors(workload: Workload, rng: Random, source: Source | None) -> list[Actor]:
    """Return all clients of a run: some in every run, others in groups that the seed draws.

    source: of the run's link, if there is one.
    """
    actors: list[Actor] = [
        IdempotentProducer(workload, "producer 1"),
        IdempotentProducer(workload, "producer 2"),
        PlainProducer(workload, "plain producer"),
        Pipeliner(workload, "pipeliner"),
        Reader(workload, "reader 1", sessions=True),
        Reader(workload, "reader 2"),
        Admin(workload, "admin", rng.choice((0.0, 0.2, 0.6))),
        Auditor(workload, "auditor"),
        WakeProber(workload, "wake prober"),
    ]
    share = rng.choice((0.1, 0.3, 0.6))
    for cast in _CASTS:
        if rng.random() < share:
            actors += cast(workload)
    # These clients have their own random numbers, so that all other draws stay as they are.
    if workload.world.rng("late admins").random() < LATE_SHARE:
        actors += _late_admins(workload)
    actors += _offsets_readers(workload)
    if source is not None:
        actors = _with_mirrors(workload, actors, source)
    if workload.world.plan.transactions.is_on:
        actors = _with_transactions(workload, actors)
    if workload.world.plan.logins.is_on:
        actors = _with_logins(workload, actors)
    if PRODUCERS in workload.world.settings:
        actors += [Newcomer(workload, f"newcomer {number}") for number in range(1, 4)]
        actors.append(Pauser(workload, "pauser", "paused"))
    if workload.world.plan.beginnings.has_small_parts:
        several = [f"relived-{number}" for number in range(1, 4)]
        actors.append(Reliver(workload, "reliver of several", several))
        actors.append(HastyEmptier(workload, "hasty emptier", "emptied-in-haste"))
        actors.append(CommitterOfAll(workload, "committer of all", "all"))
    if workload.world.plan.rights.is_on:
        actors += _guarded(workload)
    return actors


def _offsets_readers(workload: Workload) -> list[Actor]:
    if workload.world.rng("offsets readers").random() >= OFFSETS_READERS_SHARE:
        return []
    return [OffsetsReader(workload, f"offsets reader {number}") for number in (1, 2)]


def _with_logins(workload: Workload, others: list[Actor]) -> list[Actor]:
    """Return the other clients, or a few of them, and clients that log in."""
    if workload.world.plan.logins.is_focused:
        others = [each for each in others if each.client.name in _FEW or _uses_lives(each)]
        for each in others:
            each.client.leisure = _LEISURE
    passwords = Passwords()
    if workload.world.plan.logins.tokens.is_on:
        others = [*others, *_with_tokens(workload)]
    if workload.world.plan.logins.bearers.is_on:
        provider = workload.world.provider
        others = [*others, BearerClient(workload, "bearer client", provider)]
    return [
        *others,
        PasswordKeeper(workload, "password keeper", passwords),
        Guesser(workload, "guesser", passwords),
        SessionClient(workload, "session by PLAIN", PLAIN),
        SessionClient(workload, "session by SCRAM", scram.NAME),
        ThrottledProducer(workload, "throttled producer"),
        Strangers(workload, "strangers"),
    ]


def _with_tokens(workload: Workload) -> list[Actor]:
    known = KnownTokens()
    return [
        TokenKeeper(workload, "token keeper", known),
        TokenClient(workload, "token client 1", known),
        TokenClient(workload, "token client 2", known),
    ]


def _guarded(workload: Workload) -> list[Actor]:
    writer = Ban()
    admin = GuardedAdmin(workload) if workload.world.plan.rights.has_admin else None
    actors: list[Actor] = [
        GuardedWriter(workload, writer),
        GuardedReader(workload),
        Guardian(workload, "guardian", writer, admin),
    ]
    return actors if admin is None else [*actors, admin]


def _with_transactions(workload: Workload, others: list[Actor]) -> list[Actor]:
    """Return the others, or a few of them, and transactional clients."""
    if workload.world.plan.transactions.is_focused:
        others = [each for each in others if each.client.name in _FEW or _uses_lives(each)]
        for each in others:
            each.client.leisure = _LEISURE
    owners = [each for each in others if isinstance(each, TopicOwner)]
    return others + transactional_clients(workload, owners[0].lives if owners else None)


def _uses_lives(actor: Actor) -> bool:
    return isinstance(actor, TopicOwner | FleetingWriter | FleetingReader)


def _with_mirrors(workload: Workload, others: list[Actor], source: Source) -> list[Actor]:
    """Return the other clients, or a few of them, and the writers to the link's source."""
    if workload.world.plan.links.is_focused:
        others = [each for each in others if each.client.name in _FEW or _uses_lives(each)]
        for each in others:
            each.client.leisure = _LEISURE
    makers: tuple[Callable[[Workload, str, Source], Actor], ...] = (
        Linker,
        SourceWriter,
        SourceWriter,
        SourceKeeper,
        MirrorReader,
    )
    named: list[tuple[str, Callable[[Workload, str, Source], Actor]]]
    named = [*zip(_OF_LINKS, makers, strict=True)]
    if workload.world.plan.links.forwards:
        named += [("forwarder 1", Forwarder), ("forwarder 2", Forwarder)]
        named += [(f"forward pipeliner {number}", ForwardPipeliner) for number in range(1, 4)]
    if workload.world.plan.links.switches:
        named.append(("switcher", Switcher))
    if workload.world.plan.links.groups:
        named += [("remote committer 1", RemoteCommitter), ("remote committer 2", RemoteCommitter)]
        named += [(f"remote member {number}", RemoteMember) for number in range(1, 4)]
        named.append(("group mover", GroupMover))
    if workload.world.plan.links.transactions:
        named = [each for each in named if each[1] is not ForwardPipeliner]
        named += [(name, RemoteTransactor) for name in IDS]
        named.append(("unit mover", UnitMover))
    return [*others, *(make(workload, name, source) for name, make in named)]


def _late_admins(workload: Workload) -> list[Actor]:
    return [
        ConfigSetter(workload, "config setter", "tuned"),
        Emptier(workload, "emptier", "emptied"),
        Reliver(workload, "reliver", ["relived"]),
    ]


def _committers(workload: Workload) -> list[Actor]:
    return [
        Committer(workload, "committer 1", "shared"),
        Committer(workload, "committer 2", "shared"),
    ]


def _members(workload: Workload) -> list[Actor]:
    members = [GroupMember(workload, f"member {place}", "readers") for place in range(1, 4)]
    return [*members, GroupProber(workload, "group prober", "readers")]


def _static_members(workload: Workload) -> list[Actor]:
    """Return static members, two of which share an instance id."""
    members = [
        GroupMember(workload, f"static {place}", "still", instance_id=f"instance {place % 2}")
        for place in range(1, 4)
    ]
    return [*members, GroupProber(workload, "static prober", "still")]


def _crowd(workload: Workload) -> list[Actor]:
    """Return many members, so that some member always joins or leaves."""
    return [GroupMember(workload, f"one of many {place}", "crowd") for place in range(1, 7)]


def _topic_lives(workload: Workload) -> list[Actor]:
    lives = Lives()
    return [
        TopicOwner(workload, "owner", lives),
        FleetingWriter(workload, "fleeting writer 1", lives),
        FleetingWriter(workload, "fleeting writer 2", lives),
        FleetingReader(workload, "fleeting reader 1", lives),
        FleetingReader(workload, "fleeting reader 2", lives),
    ]


def _contenders(workload: Workload) -> list[Actor]:
    names = [f"contender {place}" for place in range(1, 4)]
    return [Contender(workload, name, "wanted") for name in names]


def _deleters(workload: Workload) -> list[Actor]:
    return [
        GroupDeleter(workload, "group deleter", "doomed"),
        Committer(workload, "doomed 1", "doomed"),
        Committer(workload, "doomed 2", "doomed"),
        Contender(workload, "doomed 3", "doomed"),
    ]


_CASTS: Final[tuple[Callable[[Workload], list[Actor]], ...]] = (
    _committers,
    _members,
    _static_members,
    _crowd,
    _topic_lives,
    _contenders,
    _deleters,
    lambda workload: [Resumer(workload, "resumer", "resumed")],
    lambda workload: [Twin(workload, "twin"), Zombie(workload, "zombie")],
    lambda workload: [Wrapper(workload, "wrapper")],
    lambda workload: [Seeker(workload, "seeker")],
    lambda workload: [Grower(workload, "grower", "orders")],
    lambda workload: [ConfigChanger(workload, "config changer", "changing")],
    lambda workload: [Retainer(workload, "retainer", "kept")],
)
