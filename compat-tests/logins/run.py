"""Every client library with every way to log in, while sessions end, and keys and passwords change.

    compat-tests/run logins --minutes 10

Each pair of library and mechanism has a producer, a group member and a topic of its own.  Sessions
last five seconds.  Server certificates, the identity provider's keys and the credentials of SCRAM
are replaced meanwhile.  At the end each acknowledged record must be in its topic once, at its
offset, and each group must have got all records.  Otherwise the exit status is 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import Final

from authentications.provider import Provider
from faults.clients import Family, installed
from runner.options import option
from runner.result import Result, say
from runner.shared import Kept
from tls.certificates import Files, make_files

from logins.brokers import Brokers, gateways, kafka, security
from logins.changes import KINDS, Changes, set_passwords
from logins.ledger import LibraryLedger
from logins.plan import LIBRARIES, MECHANISMS, MTLS, Plan, logins_of, user_of, users
from logins.programs import COMMANDS, start
from logins.reading import create_topics, read_all
from logins.report import Figures, judged, table

TOKEN_SECONDS: Final = 20.0
ITERATIONS: Final = 4096
LOOK_SECONDS: Final = 0.1
PATIENCE_SECONDS: Final = 90.0


@dataclass(frozen=True)
class Options(Kept):
    """The options."""

    minutes: float = 10.0
    libraries: Sequence[str] = option(LIBRARIES, "by comma", choices=LIBRARIES)
    mechanisms: Sequence[str] = option(MECHANISMS, "by comma", choices=MECHANISMS)
    rate: int = option(20, "records a second of each pair")
    every_seconds: float = option(7.0, "seconds between two changes", flag="--every")
    is_kafka: bool = option(False, "log in at Apache Kafka instead", flag="--kafka")


def login_run(options: Options, folder: Path) -> Figures:
    """Run it in an empty folder; its logs stay there."""
    files = make_files(folder / "certificates")
    # A key stays published as long as the tokens that it signed are valid.
    provider = Provider(TOKEN_SECONDS, 1 + ceil(TOKEN_SECONDS / (KINDS * options.every_seconds)))
    logs = folder / "clients"
    logs.mkdir()
    with provider.published() as keys_url, _brokers(options, folder, files, keys_url) as brokers:
        topics = [user_of(one, each) for one in options.libraries for each in options.mechanisms]
        set_passwords(brokers.plain, options.mechanisms, ITERATIONS)
        create_topics(brokers.plain, topics)
        certificates = {user: files.new_client(user) for user in users([MTLS]) if user in topics}
        families: list[Family[LibraryLedger]] = []
        try:
            for each in options.libraries:
                logins = logins_of(each, options.mechanisms, certificates)
                tokens = keys_url.replace("/keys", "/tokens")
                plan = Plan(dict(brokers.servers), str(files.ca), tokens, options.rate, logins)
                families.append(start(each, plan, logs))
            changes = Changes(brokers, files, provider, options.mechanisms, options.every_seconds)
            return _figures(options, brokers, families, changes, topics)
        finally:
            for family in families:
                with suppress(OSError, ValueError):
                    family.close()


@contextmanager
def _brokers(options: Options, folder: Path, files: Files, keys_url: str) -> Generator[Brokers]:
    mechanisms = ",".join(each for each in MECHANISMS if each != MTLS)
    texts = security(files, keys_url, users(["PLAIN"]), mechanisms)
    started = kafka(texts, keys_url) if options.is_kafka else gateways(folder, texts)
    with started as brokers:
        yield brokers


def _figures(
    options: Options,
    brokers: Brokers,
    families: list[Family[LibraryLedger]],
    changes: Changes,
    topics: Sequence[str],
) -> Figures:
    """Make the changes, then end the clients, read all records and judge."""
    problems: list[str] = []
    ledgers = [each.ledger for each in families]
    pairs = {
        user_of(ledger.library, mechanism): pair
        for ledger in ledgers
        for mechanism, pair in ledger.pairs.items()
    }
    wait = partial(_wait, families, problems)
    wait("begun", lambda: [each.name for each in pairs.values() if not each.read])
    minutes = _hurt(options, families, changes)
    for family in families:
        family.tell("flush")
    wait("ended", lambda: [each.name for each in pairs.values() if not each.is_done])
    found = read_all(brokers.plain, topics)
    wait(
        "read all", lambda: [each.name for user, each in pairs.items() if each.behind(found[user])]
    )
    for family in families:
        family.close()
    logins = brokers.logins()
    judgement = judged(ledgers, found, logins)
    problems += [text for each in ledgers for text in each.problems]
    problems += [text for each in pairs.values() for text in each.problems]
    return Figures(minutes, judgement, changes.done, brokers.reloads(), logins.failed, problems)


def _hurt(options: Options, families: Sequence[Family[LibraryLedger]], changes: Changes) -> float:
    """Make the changes; return how many minutes this took."""
    began = time.monotonic()
    with changes:
        while time.monotonic() < began + options.minutes * 60:
            _check(families)
            time.sleep(LOOK_SECONDS)
    return (time.monotonic() - began) / 60


def _wait(
    families: Sequence[Family[LibraryLedger]],
    problems: list[str],
    word: str,
    missing: Callable[[], list[str]],
) -> None:
    """Wait until missing() is empty.  After PATIENCE_SECONDS the missing things become problems."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while found := missing():
        _check(families)
        if time.monotonic() > deadline:
            problems += [f"{each} has not {word} in {PATIENCE_SECONDS:.0f} s" for each in found]
            return
        time.sleep(LOOK_SECONDS)


def _check(families: Sequence[Family[LibraryLedger]]) -> None:
    for family in families:
        family.check()


def main(options: Options) -> Result:
    """Run it."""
    options = replace(options, libraries=installed(options.libraries, say, COMMANDS))
    with options.work_folder("logins") as folder:
        figures = login_run(options, folder)
    return Result(figures.is_clean, table(figures), figures)
