"""Intended differences from Kafka.  Each has a name and a reason.

docs/api-support.md lists those that clients can notice.

Some leave the two brokers in different states.  The script ends there, since later answers cannot
be compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from tidegate_protocol.error_codes import ErrorCode as E

from . import steps as st
from .comparing import Difference
from .player import ONE_BUMP
from .seen import ABORTED_LATER

_TOPICS_OF_TRANSACTION: Final = re.compile(r"transactions\.transaction_states/[^/]*\.topics")


_MARKER: Final = re.compile(r"uncommitted.*\.records@\d+$")
_STABLE: Final = re.compile(r".*last_stable_offset$|stable end.*\.offset$")
_BUMPS_SINCE: Final = 5
_NOT_ADDED: Final = {E.TRANSACTION_ABORTABLE, E.INVALID_TXN_STATE}
# A newer version of the request has PRODUCER_FENCED, an older one INVALID_PRODUCER_EPOCH.
_FENCED: Final = {E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH}
_PRODUCED_TOPIC: Final = re.compile(
    r"Produce\.responses/.*-([a-z])\.partition_responses/\d+\.error_code$"
)


class Permission(NamedTuple):
    """A permitted difference.

    ends: whether the script ends there.  covers: whether it explains a difference; None if the
    player leaves such differences out.
    """

    name: str
    reason: str
    ends: bool
    covers: Callable[[Difference], bool] | None


def _gap_at_begin(difference: Difference) -> bool:
    """Kafka takes any sequence number of a producer of which it has no state."""
    codes = (difference.kafka, difference.gateway)
    return (
        isinstance(difference.step, st.Write)
        and difference.path.endswith("error_code")
        and codes == (E.NONE, E.OUT_OF_ORDER_SEQUENCE_NUMBER)
    )


def _other_id(difference: Difference) -> bool:
    step = difference.step
    if not isinstance(step, st.Write | st.StageOffsets):
        return False
    is_other = (step.who.id, step.who.name) != ("own", "own")
    is_other = is_other or difference.kafka == E.NONE  # the producer has no id
    return is_other and difference.gateway in (E.INVALID_PRODUCER_ID_MAPPING, E.INVALID_REQUEST)


def _zombie_ends(difference: Difference) -> bool:
    step = difference.step
    if not isinstance(step, st.End) or step.version < _BUMPS_SINCE:
        return False
    is_kafka = difference.kafka in (E.NONE, E.INVALID_TXN_STATE)
    return is_kafka and difference.gateway == E.PRODUCER_FENCED


def _after_a_refusal(difference: Difference) -> bool:
    """Whether a batch was refused before in the partition."""
    step = difference.step
    codes = (difference.kafka, difference.gateway)
    if not isinstance(step, st.Write) or codes != (E.OUT_OF_ORDER_SEQUENCE_NUMBER, E.NONE):
        return False
    wrong: set[st.Place] = set()
    for index, each in enumerate(difference.steps[:-1]):
        is_repeat = isinstance(difference.script.steps[index], st.Repeat)
        if isinstance(each, st.Write):
            is_wrong = is_repeat or each.who != st.Who(each.who.producer)
            wrong |= {e.place for e in each.batches if is_wrong or e.sequence != "next"}
    return not wrong.isdisjoint(each.place for each in step.batches)


def _within_a_batch(difference: Difference) -> bool:
    is_deleted = any(isinstance(each, st.DeleteRecords) for each in difference.steps)
    is_stable = bool(_STABLE.match(difference.path))
    kafka, gateway = difference.kafka, difference.gateway
    is_lower = isinstance(kafka, int) and isinstance(gateway, int) and kafka < gateway
    return is_deleted and is_stable and is_lower


def _empty_group(difference: Difference) -> bool:
    codes = (difference.kafka, difference.gateway)
    if isinstance(difference.step, st.DeleteGroup | st.DeleteOffsets):
        return codes == (E.NONE, E.GROUP_ID_NOT_FOUND)
    is_step = isinstance(difference.step, st.StageOffsets | st.CommitOffsets)
    return is_step and codes == (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION)


def _unsynced(difference: Difference) -> bool:
    has_joined = any(isinstance(each, st.Join) and not each.syncs for each in difference.steps)
    codes = (difference.kafka, difference.gateway)
    is_step = isinstance(difference.step, st.DeleteOffsets)
    return is_step and has_joined and codes == (E.GROUP_SUBSCRIBED_TO_TOPIC, E.NONE)


def _unknown_group(difference: Difference) -> bool:
    codes = (difference.kafka, difference.gateway)
    is_step = isinstance(difference.step, st.CommitOffsets)
    return is_step and codes == (E.GROUP_ID_NOT_FOUND, E.ILLEGAL_GENERATION)


def _zombie_aborts(difference: Difference) -> bool:
    is_step = isinstance(difference.step, st.Initialise) and difference.step.keeps
    values = (difference.kafka, difference.gateway)
    is_fenced = E.NONE in values and bool(_FENCED.intersection(values))
    return is_step and (is_fenced or values == ("CompleteAbort", "Ongoing"))


def _is_mark(difference: Difference) -> bool:
    step = difference.step
    if not isinstance(step, st.Mark):
        return False
    is_answer = difference.path.startswith("WriteTxnMarkers")
    codes = (difference.kafka, difference.gateway)
    is_stale = codes == (E.INVALID_PRODUCER_EPOCH, E.NONE) or codes[0] == E.UNKNOWN_SERVER_ERROR
    return step.commits or not is_answer or is_stale


def _neighbours_code(difference: Difference) -> bool:
    is_step = isinstance(difference.step, st.Write | st.StageOffsets)
    return is_step and {difference.kafka, difference.gateway} == _NOT_ADDED


def _is_deleted_topic(difference: Difference) -> bool:
    is_deleted = any(isinstance(each, st.DeleteTopic) for each in difference.steps)
    return is_deleted and bool(_TOPICS_OF_TRANSACTION.match(difference.path))


def _is_topic_again(difference: Difference) -> bool:
    made = {each.topic for each in difference.steps if isinstance(each, st.CreateTopic)}
    if isinstance(difference.step, st.Write):
        produced = _PRODUCED_TOPIC.match(difference.path)
        is_refused = difference.kafka == E.NONE and difference.gateway in _NOT_ADDED
        return is_refused and produced is not None and ord(produced[1]) - ord("a") in made
    ends = isinstance(difference.step, st.End | st.Initialise | st.TimeOut)
    return bool(made) and ends and _MARKER.match(difference.path) is not None


def _other_bump(difference: Difference) -> bool:
    is_step = isinstance(difference.step, st.Initialise)
    is_worn = difference.script.worn_to >= 0
    return is_step and is_worn and difference.path.startswith("InitProducerId.producer_")


PERMITTED: Final = (
    Permission(
        ONE_BUMP,
        "The open transaction is aborted in the same entry, with one new epoch.  Kafka answers"
        " CONCURRENT_TRANSACTIONS and raises the epoch twice; at the last epochs that takes another"
        " producer id.",
        True,
        _other_bump,
    ),
    Permission(
        ABORTED_LATER,
        "A fetch names aborted transactions among its records.  Kafka names some more, since its"
        " index of offsets is coarse.",
        False,
        None,
    ),
    Permission(
        "first batch is not 0",
        "Kafka before Produce v12 takes any first sequence number of a producer that a partition"
        " does not know.  A gateway knows that a young producer id has written nothing yet, so it"
        " reports the gap.",
        True,
        _gap_at_begin,
    ),
    Permission(
        "another id",
        "A transactional request needs the producer id of its transactional id.  Kafka looks at the"
        " partition's own epoch first, and asks only for the first batch of a transaction in a"
        " partition, and not for batches without a producer id.",
        True,
        _other_id,
    ),
    Permission(
        "repeated InitProducerId",
        "InitProducerId with another epoch is refused, or answered as the repeat that it is.  If a"
        " transaction is open, Kafka aborts that first, and only then looks at the epoch.",
        True,
        _zombie_aborts,
    ),
    Permission(
        "zombie after version 1",
        "An end before EndTxn v5 raises no epoch.  So an EndTxn v5 with the epoch below does not"
        " repeat it; it is a fenced producer's.  Kafka answers it, even with the present epoch.",
        True,
        _zombie_ends,
    ),
    Permission(
        "batch after a refused one",
        "Kafka notes the lowest sequence number of a transaction's first batches.  If that batch is"
        " refused, Kafka takes no later one in its place.",
        True,
        _after_a_refusal,
    ),
    Permission(
        "stable offset within a batch",
        "If DeleteRecords ends within a batch of an open transaction, the last stable offset is the"
        " log start offset.  In Kafka it is the batch's base offset, which is lower.",
        False,
        _within_a_batch,
    ),
    Permission(
        "group without members and offsets",
        "A gateway forgets such a group at once, Kafka at its next look.",
        True,
        _empty_group,
    ),
    Permission(
        "offsets of a group that has not synced",
        "OffsetDelete reads the members that are in the metadata log: those of the last generation"
        " that has synced.",
        True,
        _unsynced,
    ),
    Permission(
        "commit to an unknown group",
        "OffsetCommit of a member answers ILLEGAL_GENERATION in all versions: classic consumers"
        " join again.  Kafka's GROUP_ID_NOT_FOUND of version 9 ends them.",
        False,
        _unknown_group,
    ),
    Permission(
        "code of a neighbour",
        "Kafka verifies batches of several producers with one request, and answers all by the"
        " version of the first: TRANSACTION_ABORTABLE or INVALID_TXN_STATE.",
        False,
        _neighbours_code,
    ),
    Permission(
        "log start with an error",
        "A gateway's refusal does not repeat the log start offset.  The Java client reads it with"
        " UNKNOWN_PRODUCER_ID only, which a gateway never answers.",
        False,
        lambda each: each.path.startswith("Produce") and each.path.endswith("log_start_offset"),
    ),
    Permission(
        "deleted topic in a transaction",
        "A topic that is deleted leaves open transactions at once.  Kafka shows its partitions in"
        " DescribeTransactions until the transaction ends.",
        False,
        _is_deleted_topic,
    ),
    Permission(
        "topic of a transaction made again",
        "A topic that is deleted and made again has no part in a transaction that was open before."
        "  Kafka writes a marker into the new one, and before Produce v12 takes batches for it.",
        True,
        _is_topic_again,
    ),
    Permission(
        "markers by request",
        "WriteTxnMarkers: a commit is refused, and an abort ends the whole transaction of the"
        " producer, since none can hang in one partition alone.  Without one, any epoch succeeds.",
        True,
        _is_mark,
    ),
)


def permission(difference: Difference) -> Permission | None:
    """Return the entry of PERMITTED that covers a difference; None if there is none."""
    found = (each for each in PERMITTED if each.covers is not None and each.covers(difference))
    return next(found, None)
