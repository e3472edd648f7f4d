"""Switches of mirrored topics from their source to this cluster, and back.

A fence holds some topics of a link while they are switched.  The fence is open until every gateway
has reached it and the copies are complete; then its topics are switched.  Or it is lifted, and
forgotten once the source accepts writes again.  In both states gateways keep writers of its topics
waiting.

A switched topic may reverse: records that are written to it here go to its source, too.  Then a
fence can hold the topic while it returns.  Such a fence makes it a mirrored topic at once, so that
no more is committed here.  If the fence is lifted, the topic is this cluster's again, at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...events.links import (
    FenceLifted,
    FenceReached,
    ReturnFenced,
    ReverseEnded,
    SourceReopened,
    SwitchesFinished,
    TopicsFenced,
    TopicsReversing,
    TopicsSwitched,
)
from ..broken import expect


@dataclass(slots=True)
class Fence:
    """limits: see FencedTopic, by topic id.

    awaited: the incarnations of gateways that may have writes to the topics without an answer yet.
    is_back: whether its topics return to their source; else they are switched.
    unit: see TopicsFenced.
    lifted: why it was lifted; "" while it is open.  lifted_ms: log time.  lifter: see FenceLifted.
    """

    number: int
    link: str
    limits: dict[bytes, str]
    awaited: set[int]
    lifted: str = ""
    lifted_ms: int = 0
    lifter: int = 0
    is_back: bool = False
    unit: int = 0


class Reopened(NamedTuple):
    """A topic whose fence was lifted.  limit: see FencedTopic.

    at_ms, rests_until_ms: log time; before rests_until_ms it is not fenced again.
    """

    limit: str
    at_ms: int
    rests_until_ms: int


class Switched(NamedTuple):
    """A topic that was switched.  limit: see FencedTopic.

    ends: where each partition of the source ended.  is_finished: the source is forgotten.  reached:
    if the topic reverses, the offset up to which each partition is written back; else ().  problem:
    why it no longer reverses, or did not return, for people; "" for nothing.  has_reversed: whether
    the source may have records above `ends` that were written back.
    """

    link: str
    limit: str
    ends: tuple[int, ...]
    is_finished: bool = False
    reached: tuple[int, ...] = ()
    problem: str = ""
    has_reversed: bool = False


class SwitchTable:
    """All fences, and the topics that were switched, by id.

    version: rises with every change, for caches.  on_hold: links that an operator has to confirm,
    since the log was restored.  reopened: topics whose fence was lifted, by id; a late gateway may
    have fenced their source again.
    """

    def __init__(self) -> None:
        self.fences: dict[int, Fence] = {}
        self.switched: dict[bytes, Switched] = {}
        self.on_hold: set[str] = set()
        self.reopened: dict[bytes, Reopened] = {}
        self.next_fence = 1
        self.version = 0
        self._fence_of: dict[bytes, int] = {}

    def __bool__(self) -> bool:
        return bool(self.fences or self.switched or self.on_hold or self.next_fence > 1)

    def fence_of(self, topic_id: bytes) -> Fence | None:
        """Return the fence, open or lifted, that holds a topic."""
        number = self._fence_of.get(topic_id)
        return self.fences[number] if number is not None else None

    def of_link(self, link: str) -> list[Fence]:
        """Return the fences of a link, the oldest first."""
        return [each for each in self.fences.values() if each.link == link]

    def fold_fenced(self, event: TopicsFenced, gateways: Iterable[int]) -> None:
        """Begin a switch.  gateways: the live incarnations."""
        expect(event.fence == self.next_fence, f"fence {event.fence}")
        limits = {each.topic_id: each.limit for each in event.topics}
        expect(not self._fence_of.keys() & limits.keys(), "a topic has a fence")
        self._put(Fence(event.fence, event.link, limits, set(gateways), unit=event.unit))
        for topic_id in limits:
            self.reopened.pop(topic_id, None)

    def _put(self, fence: Fence) -> None:
        self.fences[fence.number] = fence
        self._fence_of.update(dict.fromkeys(fence.limits, fence.number))
        self.next_fence += 1
        self.version += 1

    def fold_reached(self, event: FenceReached) -> None:
        """A gateway has answered all batches of its clients to the topics of a fence."""
        self._fence(event.fence).awaited.discard(event.incarnation)
        self.version += 1

    def fold_lifted(self, event: FenceLifted, now_ms: int) -> None:
        """The topics stay with their source.  now_ms: log time."""
        fence = self._fence(event.fence)
        expect(not fence.lifted, f"fence {event.fence} is lifted twice")
        fence.lifted = event.reason or "it was lifted"
        fence.lifted_ms, fence.lifter = now_ms, event.lifter
        self.version += 1

    def fold_reopened(self, event: SourceReopened, now_ms: int, rest_ms: int) -> None:
        """Forget a lifted fence.

        rest_ms: how long its topics rest if another gateway may still reopen their source.
        """
        fence = self._fence(event.fence)
        expect(bool(fence.lifted), f"fence {event.fence} is not lifted")
        until_ms = 0 if event.is_sure else now_ms + rest_ms
        for topic_id, limit in fence.limits.items():
            self.reopened[topic_id] = Reopened(limit, now_ms, until_ms)
        self._forget(event.fence)

    def fold_switched(self, event: TopicsSwitched, ends: Mapping[bytes, tuple[int, ...]]) -> None:
        """The topics of a fence are this cluster's now.  ends: see Switched, by topic."""
        fence = self._fence(event.fence)
        expect(not fence.lifted, f"fence {event.fence} is lifted")
        for topic_id, limit in fence.limits.items():
            self.switched[topic_id] = Switched(fence.link, limit, ends[topic_id])
        self._forget(event.fence)

    def fold_reversing(self, event: TopicsReversing) -> None:
        """Records that were written since the switch are now written back to the source."""
        for topic_id in event.topic_ids:
            switched = self._switched(topic_id)
            self.switched[topic_id] = switched._replace(
                reached=switched.ends, problem="", has_reversed=True
            )
        self.version += 1

    def fold_reverse_reached(self, topic_id: bytes, offsets: Mapping[int, int]) -> None:
        """Note how far partitions of a topic are written back, by index; caches need not change."""
        switched = self._switched(topic_id)
        reached = list(switched.reached)
        for index, offset in offsets.items():
            expect(index < len(reached), f"topic {topic_id.hex()} does not reverse")
            expect(reached[index] <= offset, f"{topic_id.hex()}-{index} goes back to {offset}")
            reached[index] = offset
        self.switched[topic_id] = switched._replace(reached=tuple(reached))

    def fold_reverse_ended(self, event: ReverseEnded) -> None:
        """No more records are written back; the source ends at the reached offsets."""
        for topic_id in event.topic_ids:
            switched = self._switched(topic_id)
            expect(topic_id not in self._fence_of, f"topic {topic_id.hex()} has a fence")
            self.switched[topic_id] = switched._replace(
                ends=switched.reached or switched.ends, reached=(), problem=event.reason
            )
        self.version += 1

    def fold_return_fenced(self, event: ReturnFenced, gateways: Iterable[int]) -> None:
        """Topics begin to return.  gateways: the live incarnations."""
        expect(event.fence == self.next_fence, f"fence {event.fence}")
        expect(not self._fence_of.keys() & set(event.topic_ids), "a topic has a fence")
        limits: dict[bytes, str] = {}
        for topic_id in event.topic_ids:
            switched = self._switched(topic_id)
            expect(bool(switched.reached), f"topic {topic_id.hex()} does not reverse")
            limits[topic_id] = switched.limit
        fence = Fence(event.fence, event.link, limits, set(gateways), is_back=True)
        self._put(fence)

    def fold_return_lifted(self, event: FenceLifted) -> Fence:
        """The topics of a fence stay this cluster's, and keep reversing; return the fence."""
        fence = self._fence(event.fence)
        for topic_id in fence.limits:
            self.switched[topic_id] = self._switched(topic_id)._replace(problem=event.reason)
        self._forget(event.fence)
        return fence

    def fold_returned(self, number: int, now_ms: int) -> None:
        """The topics of a fence are their source's again.  now_ms: log time.

        A late gateway may still fence the source, so the topics are noted as reopened.
        """
        fence = self._fence(number)
        for topic_id, limit in fence.limits.items():
            del self.switched[topic_id]
            self.reopened[topic_id] = Reopened(limit, now_ms, 0)
        self._forget(number)

    def _switched(self, topic_id: bytes) -> Switched:
        expect(topic_id in self.switched, f"topic {topic_id.hex()} was not switched")
        return self.switched[topic_id]

    def fold_finished(self, event: SwitchesFinished) -> None:
        """The topics have no source any more."""
        for topic_id in event.topic_ids:
            switched = self._switched(topic_id)
            expect(topic_id not in self._fence_of, f"topic {topic_id.hex()} has a fence")
            self.switched[topic_id] = switched._replace(is_finished=True, reached=(), problem="")
        self.version += 1

    def hold_links(self, links: Iterable[str]) -> list[bytes]:
        """Do nothing at the sources until an operator confirms the links: the log was restored.

        Open fences are lifted, because they may be long outdated.  No topic reverses any more.
        Return the topics that were about to return: they are this cluster's.
        """
        self.on_hold.update(links)
        back = [each for each in self.fences.values() if each.is_back]
        for fence in back:
            self._forget(fence.number)
        for topic_id, each in self.switched.items():
            if each.reached:
                self.switched[topic_id] = each._replace(
                    ends=each.reached, reached=(), problem="the log was restored"
                )
        for fence in self.fences.values():
            fence.lifted = fence.lifted or "the log was restored"
        self.version += 1
        return [topic_id for fence in back for topic_id in fence.limits]

    def confirm(self, link: str) -> None:
        """An operator has set the link."""
        self.on_hold.discard(link)
        self.version += 1

    def forget_link(self, link: str) -> None:
        """Forget a link, its fences and its switched topics."""
        self.on_hold.discard(link)
        for topic_id in [key for key, each in self.switched.items() if each.link == link]:
            del self.switched[topic_id]
        for number in [each.number for each in self.of_link(link)]:
            self._forget(number)
        self.version += 1

    def forget_topic(self, topic_id: bytes, shown_id: bytes) -> None:
        """The topic is deleted.  If it was switched, its link must not create it again.

        The link names it by its source's id, so its row is kept under that id.
        """
        self.reopened.pop(topic_id, None)
        if topic_id in self.switched:
            self.switched[shown_id] = self.switched.pop(topic_id)

    def _fence(self, number: int) -> Fence:
        expect(number in self.fences, f"unknown fence {number}")
        return self.fences[number]

    def _forget(self, number: int) -> None:
        for topic_id in self.fences.pop(number).limits:
            del self._fence_of[topic_id]
        self.version += 1

    def encode(self) -> object:
        """Return the whole table as builtins."""
        return {
            "next": self.next_fence,
            "fences": [
                [
                    each.number,
                    each.link,
                    list(map(list, each.limits.items())),
                    sorted(each.awaited),
                    each.lifted,
                    each.lifted_ms,
                    each.lifter,
                    each.is_back,
                    each.unit,
                ]
                for each in self.fences.values()
            ],
            "switched": [[key, *each] for key, each in sorted(self.switched.items())],
            "on_hold": sorted(self.on_hold),
            "reopened": [[key, *each] for key, each in sorted(self.reopened.items())],
        }

    def decode(self, table: Mapping[str, Any]) -> None:
        """Fill an empty table from encode()'s answer; {} leaves it empty."""
        self.next_fence = table.get("next", 1)
        for number, link, limits, awaited, *lifted in table.get("fences", ()):
            fence = Fence(number, link, dict(limits), set(awaited), *lifted)
            self.fences[fence.number] = fence
            self._fence_of.update(dict.fromkeys(fence.limits, fence.number))
        for topic_id, link, limit, ends, is_finished, *back in table.get("switched", ()):
            reached, problem, has_reversed = back or ((), "", False)
            self.switched[topic_id] = Switched(
                link, limit, tuple(ends), is_finished, tuple(reached), problem, has_reversed
            )
        self.on_hold = set(table.get("on_hold", ()))
        self.reopened = {key: Reopened(*each) for key, *each in table.get("reopened", ())}
