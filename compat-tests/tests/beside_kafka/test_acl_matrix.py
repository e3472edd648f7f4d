"""A part of the ACL matrix: a gateway in memory answers as Apache Kafka 4.3.1 did."""

from __future__ import annotations

import msgspec
from acls.record import FACTS, Facts, recorded_users
from acls.rights import ADMIN, all_rights
from acls.side import LISTENER, Line, Side, settings
from trio.testing import MockClock

from tests.worlds.clients.on_wire import OnWire
from tests.worlds.wire_client import wire_world

_OF_PROCESS = ("listeners", "listener.security.protocol.map")


def test_each_right_is_lacking_somewhere() -> None:
    about = {each.about.partition(":")[0] for each in recorded_users()}
    assert len(about) == len(all_rights())


async def test_a_gateway_answers_what_kafka_answered(autojump_clock: MockClock) -> None:
    users = recorded_users()
    given = {name: text for name, text in settings(9092, users).items() if name not in _OF_PROCESS}
    facts = msgspec.json.decode(FACTS.read_bytes(), type=Facts)
    async with wire_world(given, listeners=(LISTENER,)) as world:

        async def open_line() -> Line:
            return OnWire(world.connect("127.0.0.1"))

        side = Side(open_line)
        await side.prepare(users)
        allowed = await side.answers(ADMIN)
        for user in users:
            found = await side.answers(user.name)
            for at, (question, answer) in enumerate(found.items()):
                number = facts.users[user.name][at]
                both_allow = number == facts.users[ADMIN][at] and answer == allowed[question]
                assert both_allow or facts.answers[number] == answer, (user.about, question)
