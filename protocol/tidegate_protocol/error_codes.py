"""Kafka 4.3's error codes, whether the Java client retries them, and our text for each.

The texts are ours, except the few that clients and suites compare word for word (3, 10, 29-31, 53,
73, 100).  Codes that only brokers of a real cluster use have a text made of their name.
"""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """The codes by Kafka's names; only requests/ chooses among them."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133


RETRIABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)

_TEXTS = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "The gateway failed unexpectedly. Its log says how.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The offset is outside the range that the partition holds.",
    ErrorCode.CORRUPT_MESSAGE: "The record batch is damaged: its CRC or its length is wrong.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.INVALID_FETCH_SIZE: "The fetch size is not valid.",
    ErrorCode.LEADER_NOT_AVAILABLE: "The partition has no leader at this moment.",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "This broker does not lead the partition.",
    ErrorCode.REQUEST_TIMED_OUT: "The request timed out.",
    ErrorCode.BROKER_NOT_AVAILABLE: "The broker is not available.",
    ErrorCode.REPLICA_NOT_AVAILABLE: "No replica of the partition is available.",
    ErrorCode.MESSAGE_TOO_LARGE: (
        "The request included a message larger than the max message size the server will accept."
    ),
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "The metadata of the committed offset is too long.",
    ErrorCode.NETWORK_EXCEPTION: "The connection ended before an answer came.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading; try again.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.NOT_COORDINATOR: "This broker does not coordinate the group or transactional id.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The topic name is not valid.",
    ErrorCode.RECORD_LIST_TOO_LARGE: "The record batch is larger than the topic's segment size.",
    ErrorCode.NOT_ENOUGH_REPLICAS: (
        "The record batch could not be stored durably; nothing was written."
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (
        "The record batch was written, but not durably enough."
    ),
    ErrorCode.INVALID_REQUIRED_ACKS: "acks must be 0, 1 or -1.",
    ErrorCode.ILLEGAL_GENERATION: "The group's generation is another one.",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "The group's members share no protocol.",
    ErrorCode.INVALID_GROUP_ID: "The group id is not valid.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The group has no member of this id.",
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        "The session timeout is outside the range that the broker allows."
    ),
    ErrorCode.REBALANCE_IN_PROGRESS: "The group is rebalancing; join again.",
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "The committed offsets are too large.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.INVALID_TIMESTAMP: (
        "A time stamp of the batch is outside the range that the topic allows."
    ),
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "The SASL mechanism is not enabled.",
    ErrorCode.ILLEGAL_SASL_STATE: "The request does not fit the state of the SASL exchange.",
    ErrorCode.UNSUPPORTED_VERSION: "The version of the API is not served.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "A topic of this name exists already.",
    ErrorCode.INVALID_PARTITIONS: "The number of partitions is not valid.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "The replication factor is not valid.",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "The replica assignment is not valid.",
    ErrorCode.INVALID_CONFIG: "The configuration is not valid.",
    ErrorCode.NOT_CONTROLLER: "This broker is not the controller.",
    ErrorCode.INVALID_REQUEST: "The request is not valid.",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "The record format does not support the request.",
    ErrorCode.POLICY_VIOLATION: "A policy forbids the request.",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: (
        "The batch's sequence number does not follow the last one."
    ),
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "The batch's sequence number was used before.",
    ErrorCode.INVALID_PRODUCER_EPOCH: "The producer's epoch is older than the current one.",
    ErrorCode.INVALID_TXN_STATE: "The state of the transaction does not allow this.",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: (
        "The producer id does not belong to the transactional id."
    ),
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "The transaction timeout is larger than the broker allows."
    ),
    ErrorCode.CONCURRENT_TRANSACTIONS: (
        "Another operation on the transaction is in progress; try again."
    ),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.SECURITY_DISABLED: "Security is disabled.",
    ErrorCode.OPERATION_NOT_ATTEMPTED: (
        "The operation was not tried, because another one of the request failed."
    ),
    ErrorCode.KAFKA_STORAGE_ERROR: "The partition's data cannot be read or written now.",
    ErrorCode.LOG_DIR_NOT_FOUND: "No such log directory.",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "SASL authentication failed.",
    ErrorCode.UNKNOWN_PRODUCER_ID: "The partition knows nothing of this producer id.",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "The partition is being reassigned.",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "Delegation tokens are not enabled.",
    ErrorCode.NON_EMPTY_GROUP: "The group still has members.",
    ErrorCode.GROUP_ID_NOT_FOUND: "No such group.",
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: "No such fetch session.",
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: "The fetch session is at another epoch.",
    ErrorCode.LISTENER_NOT_FOUND: "No listener of the leader matches the one that was asked.",
    ErrorCode.TOPIC_DELETION_DISABLED: "Topic deletion is disabled.",
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch of the request is older than the partition's.",
    ErrorCode.UNKNOWN_LEADER_EPOCH: (
        "The leader epoch of the request is newer than this broker knows."
    ),
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: (
        "The client's version cannot read or write this compression type."
    ),
    ErrorCode.OFFSET_NOT_AVAILABLE: "The offset is not known yet; try again.",
    ErrorCode.MEMBER_ID_REQUIRED: "Join again with the member id of this answer.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader is not available.",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The group is full.",
    ErrorCode.FENCED_INSTANCE_ID: "Another member has taken over this group.instance.id.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "No eligible leader is available.",
    ErrorCode.ELECTION_NOT_NEEDED: "The partition needs no election.",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "No reassignment is in progress.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "The group is subscribed to the topic.",
    ErrorCode.INVALID_RECORD: "The record batch breaks a rule of the topic or the protocol.",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: (
        "The offset depends on a transaction that is still open; try again."
    ),
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "The quota is used up; try again later.",
    ErrorCode.PRODUCER_FENCED: "A newer producer has the same transactional id.",
    ErrorCode.RESOURCE_NOT_FOUND: "No such resource.",
    ErrorCode.DUPLICATE_RESOURCE: "The request names the same resource twice.",
    ErrorCode.UNACCEPTABLE_CREDENTIAL: "The credential does not meet the rules.",
    ErrorCode.INVALID_UPDATE_VERSION: "The version of the update is not valid.",
    ErrorCode.FEATURE_UPDATE_FAILED: "The features could not be updated.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    ErrorCode.INCONSISTENT_TOPIC_ID: "The topic id does not match the topic.",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "The request is meant for another cluster.",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "No such transactional id.",
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: (
        "The fetch session mixes requests with and without topic ids."
    ),
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: "The offset has moved to tiered storage.",
    ErrorCode.FENCED_MEMBER_EPOCH: (
        "The member's epoch is fenced; give up all partitions and join again."
    ),
    ErrorCode.UNRELEASED_INSTANCE_ID: "Another member still uses this group.instance.id.",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "The group does not support the assignor.",
    ErrorCode.STALE_MEMBER_EPOCH: "The member's epoch is old; take the new one and try again.",
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: "The telemetry subscription is unknown or outdated.",
    ErrorCode.TELEMETRY_TOO_LARGE: "The telemetry is larger than the broker accepts.",
    ErrorCode.TRANSACTION_ABORTABLE: "The transaction failed; abort it and go on.",
    ErrorCode.INVALID_RECORD_STATE: (
        "The record's delivery state does not allow this acknowledgement."
    ),
    ErrorCode.SHARE_SESSION_NOT_FOUND: "No such share session.",
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: "The share session is at another epoch.",
    ErrorCode.FENCED_STATE_EPOCH: "The share group's state is at another epoch.",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "The regular expression is not valid.",
    ErrorCode.REBOOTSTRAP_REQUIRED: (
        "The client's metadata belongs to another cluster or broker; bootstrap again."
    ),
    ErrorCode.STREAMS_INVALID_TOPOLOGY: "The topology is not valid.",
    ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH: "The topology's epoch is not valid.",
    ErrorCode.STREAMS_TOPOLOGY_FENCED: "The topology's epoch is old.",
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: "No more share sessions are allowed.",
}


def is_retriable(code: int) -> bool:
    """Return whether the Java client repeats a request that was answered with the code."""
    return code in RETRIABLE


def error_text(code: int) -> str:
    """Return the default text of an error code; "" for no error."""
    if code == ErrorCode.NONE:
        return ""
    known = ErrorCode(code)
    return _TEXTS.get(known) or known.name.replace("_", " ").capitalize() + "."
