"""A group member at work in a thread: poll, note, commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from drivers.records import Client, Got, Member

WAIT_SECONDS = 60.0


class MemberThread:
    """Reads until the test makes it leave.  `delivered` and `refused_commits` may be read any
    time.
    """

    def __init__(self, client: Client, topic: str, group: str) -> None:
        self.delivered: list[Got] = []
        self.assigned: set[int] = set()
        self.refused_commits = 0
        self._error: BaseException | None = None
        self._stop = threading.Event()
        # A daemon thread, so that the run can end after a test failed.
        self._thread = threading.Thread(target=self._run, args=(client, topic, group), daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Leave the group; raise the error that ended the thread, if any."""
        self._stop.set()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()
        self.check()

    def check(self) -> None:
        """Raise the error that ended the thread, if any."""
        if self._error is not None:
            raise self._error

    def _run(self, client: Client, topic: str, group: str) -> None:
        try:
            member = client.member(topic, group)
            try:
                self._work(member)
            finally:
                member.close()
        except BaseException as error:
            self._error = error

    def _work(self, member: Member) -> None:
        while not self._stop.is_set():
            got = member.poll()
            self.assigned = member.assignment()
            self.delivered += got
            if got and not member.commit():
                self.refused_commits += 1


def wait_for(members: Sequence[MemberThread], done: Callable[[], bool]) -> None:
    """Wait until `done()`; raise the error of a member that failed.

    Raises:
      TimeoutError: it did not happen within WAIT_SECONDS; the text names the members' partitions.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while not done():
        for member in members:
            member.check()
        if time.monotonic() > deadline:
            state = [(sorted(each.assigned), len(each.delivered)) for each in members]
            raise TimeoutError(f"members hold and got {state}")
        time.sleep(0.02)
