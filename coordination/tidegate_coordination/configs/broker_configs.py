"""Broker configs: Kafka's, with their effect here, and Tidegate's own settings.

All of Kafka's names are known, so that tools find them and Tidegate reads a server.properties of
Kafka unchanged.  Configs without a text below have no effect here.
"""

from __future__ import annotations

from .broker_rows import BROKER_ROWS
from .definition import (
    Check,
    ConfigType,
    Definition,
    Update,
    Value,
    between,
    between_or,
    not_empty,
    one_of,
    one_of_any_case,
)
from .own_settings import OWN_SETTINGS

NO_MEANING = "Kept for tools: it changes nothing here."

_MEANINGS = {
    "advertised.listeners": "The addresses that clients connect to, one for each listener.",
    "authorizer.class.name": "Kafka's StandardAuthorizer; empty: clients may do everything.",
    "auto.create.topics.enable": "Create a topic when a client asks for its metadata.",
    "broker.rack": "The availability zone of this gateway.",
    "compression.gzip.level": "Default of the topic config.",
    "compression.lz4.level": "Default of the topic config.",
    "compression.type": "Default of the topic config.",
    "compression.zstd.level": "Default of the topic config.",
    "config.providers": "Names of providers of values, such as env,file,dir; each has a"
    " config.providers.NAME.class of Kafka.  Values look like ${env:NAME}, ${file:PATH:KEY}.",
    "connection.failed.authentication.delay.ms": "How long a failed authentication stays without an"
    " answer, so that guessing passwords takes time.",
    "connections.max.reauth.ms": "After so long a client of SASL has to authenticate again, on the"
    " same connection; 0: never.  Also for one listener, or one mechanism of it.",
    "controller.quota.window.num": "How many windows' worth of created and deleted partitions a"
    " client may save up.",
    "controller.quota.window.size.seconds": "The length of such a window.",
    "connections.max.idle.ms": "Close a connection that sent nothing for so long.",
    "controller.listener.names": "Listeners that are left out: those of Kafka's controllers.",
    "default.replication.factor": "Label of topics created without one of their own.",
    "delete.topic.enable": "Whether topics can be deleted.",
    "fetch.max.bytes": "The most bytes of one fetch response, even if the client requests more.",
    "group.initial.rebalance.delay.ms": "How long a new group waits for more members.",
    "group.max.session.timeout.ms": "The longest session time-out of a group member.",
    "group.max.size": "The most members of a group.",
    "group.min.session.timeout.ms": "The shortest session time-out of a group member.",
    "listener.security.protocol.map": "Listener name to security protocol.",
    "listeners": "Where this gateway listens, one address for each listener.",
    "log.cleaner.delete.retention.ms": "Default of delete.retention.ms.",
    "log.cleaner.max.compaction.lag.ms": "Default of max.compaction.lag.ms.",
    "log.cleaner.min.cleanable.ratio": "Default of min.cleanable.dirty.ratio.",
    "log.cleaner.min.compaction.lag.ms": "Default of min.compaction.lag.ms.",
    "log.cleanup.policy": "Default of cleanup.policy.",
    "log.message.timestamp.after.max.ms": "Default of message.timestamp.after.max.ms.",
    "log.message.timestamp.before.max.ms": "Default of message.timestamp.before.max.ms.",
    "log.message.timestamp.type": "Default of message.timestamp.type.",
    "log.retention.bytes": "Default of retention.bytes.",
    "log.retention.hours": "Default of retention.ms, where no finer one is set.",
    "log.retention.minutes": "Default of retention.ms, where log.retention.ms is not set.",
    "log.retention.ms": "Default of retention.ms.",
    "delegation.token.expiry.check.interval.ms": "How often the housekeeper looks for delegation"
    " tokens that expired, and removes them.",
    "delegation.token.expiry.time.ms": "How long a delegation token is good without a renewal.",
    "delegation.token.max.lifetime.ms": "How long a delegation token is good at most, however often"
    " it is renewed.",
    "delegation.token.secret.key": "The key that the secrets of delegation tokens follow from; the"
    " same for all gateways.  Empty: there are no delegation tokens.",
    "log.segment.bytes": "Default of segment.bytes.",
    "max.connection.creation.rate": "The most connections that are accepted in a second.",
    "max.connections": "The most connections of this gateway.",
    "max.connections.per.ip": "The most connections of one address.",
    "max.connections.per.ip.overrides": "The most connections of some addresses:"
    " `ADDRESS:COUNT,...`.",
    "max.request.partition.size.limit": "The most partitions of a DescribeTopicPartitions answer.",
    "message.max.bytes": "Default of max.message.bytes.",
    "node.id": "The number clients know this gateway by; each gateway has its own.",
    "num.partitions": "Partitions of topics created without a number of their own.",
    "offset.metadata.max.bytes": "The longest metadata text of a committed offset.",
    "offsets.retention.minutes": "How long the offsets of an empty group are kept.",
    "offsets.topic.num.partitions": "Partitions of __consumer_offsets.",
    "offsets.topic.replication.factor": "Label of __consumer_offsets.",
    "offsets.topic.segment.bytes": "The segment.bytes of __consumer_offsets.",
    "telemetry.max.bytes": "The most bytes of metrics that a client may push at once, as sent and"
    " decompressed.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "How often the housekeeper looks"
    " for transactions that are open for longer than their time-out.",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "How often the housekeeper looks"
    " for transactional ids that expired.",
    "transactional.id.expiration.ms": "How long an unused transactional id is kept.",
    "transaction.max.timeout.ms": "The longest that a producer may keep a transaction open.",
    "transaction.state.log.min.isr": "The min.insync.replicas of __transaction_state.",
    "transaction.state.log.num.partitions": "Partitions of __transaction_state, which stays empty.",
    "transaction.state.log.replication.factor": "Label of __transaction_state.",
    "transaction.state.log.segment.bytes": "The segment.bytes of __transaction_state.",
    "producer.id.expiration.ms": "How long the state of an idle idempotent producer is kept.",
    "sasl.enabled.mechanisms": "The mechanisms that listeners of SASL offer: PLAIN, SCRAM-SHA-256,"
    " SCRAM-SHA-512, OAUTHBEARER.  Also for one listener.",
    "sasl.jaas.config": "The users of PLAIN; only for a mechanism of a listener, as"
    " listener.name.<listener>.plain.sasl.jaas.config.",
    "sasl.oauthbearer.clock.skew.seconds": "How far the clocks of identity provider and gateway may"
    " differ.  All sasl.oauthbearer settings also for one listener.",
    "sasl.oauthbearer.expected.audience": "Tokens must name one of these audiences (aud); empty:"
    " they must name none.",
    "sasl.oauthbearer.expected.issuer": "Tokens must name this issuer (iss); needed for"
    " OAUTHBEARER.",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "How often the keys of the identity provider are"
    " read.  A token that names an unknown key has them read within four seconds.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "The longest pause after failed reads.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "The pause after a read of the keys failed;"
    " it doubles.",
    "sasl.oauthbearer.jwks.endpoint.url": "Where the identity provider publishes the keys that sign"
    " tokens (JWKS): https://, http:// or file:///; needed for OAUTHBEARER.",
    "sasl.oauthbearer.scope.claim.name": "The claim with the token's scopes.",
    "sasl.oauthbearer.sub.claim.name": "The claim with the user's name.",
    "sasl.server.max.receive.size": "The largest token of a client that authenticates.  Also for"
    " one listener.",
    "quota.window.num": "In how many windows the use of quotas is counted.",
    "quota.window.size.seconds": "The length of such a window.",
    "socket.request.max.bytes": "The largest request.",
    "ssl.allow.dn.changes": "Whether a new certificate may have another subject.",
    "ssl.allow.san.changes": "Whether a new certificate may lack alternative names of the old one.",
    "ssl.cipher.suites": "Suites of listeners with TLS, in Java's names; empty: OpenSSL's choice.",
    "ssl.client.auth": "Whether clients of a listener with TLS show a certificate: none, requested,"
    " required.  On a listener with SASL only listener.name.<listener>.ssl.client.auth counts.",
    "ssl.enabled.protocols": "Versions of TLS: TLSv1.2, TLSv1.3.",
    "ssl.key.password": "The password of the key in the keystore, if it has its own.",
    "ssl.keystore.certificate.chain": "The certificates of ssl.keystore.key, as text in PEM.",
    "ssl.keystore.key": "The key of a listener with TLS, as text in PEM.",
    "ssl.keystore.location": "The file with key and certificate of a listener with TLS: PEM, PKCS12"
    " or JKS.  It is read again when it changes.",
    "ssl.keystore.password": "The password of the keystore.",
    "ssl.keystore.type": "Kept for tools: the content of the keystore tells its type.",
    "ssl.principal.mapping.rules": "How a principal follows from the subject of a client's"
    " certificate: rules RULE:pattern/replacement/[LU], or DEFAULT for the subject as it is.",
    "ssl.protocol": "TLS, TLSv1.2 or TLSv1.3; ssl.enabled.protocols decides which versions are"
    " served.",
    "ssl.truststore.certificates": "The trusted certificates, as text in PEM.",
    "ssl.truststore.location": "The file with the certificates that clients' certificates must be"
    " signed by: PEM, PKCS12 or JKS; not set: those of the system.  It is read again when it"
    " changes.",
    "ssl.truststore.password": "The password of the truststore.",
    "ssl.truststore.type": "Kept for tools: the content of the truststore tells its type.",
}

# Kafka has no bound on connections.  Here one that has begun a request costs 64 KiB.
_DEFAULTS_HERE = {"max.connections": "10000", "node.id": "1"}

_FIXED_AT_START = frozenset(
    {
        "config.providers",
        "listener.security.protocol.map",
        "listeners",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "max.connections.per.ip.overrides",
    }
)
"""Kafka changes these while it runs; a gateway reads them once."""

OF_LISTENERS_ONLY = "ssl."
"""Kafka changes these while it runs only for one listener, by `listener.name.<listener>.` before
the name; a gateway reads them once, and what their files hold again and again.
"""


def _bound(text: str) -> float | None:
    if not text:
        return None
    return float(text) if "." in text else int(text)


def _retention(_: str, value: Value) -> str | None:
    """Any negative time is no limit; none at all is refused, in Kafka's words (KafkaConfig)."""
    if value != 0:
        return None
    return "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"


def _check(text: str) -> Check | None:
    if text == "-":
        return None
    if text == "retention":
        return _retention
    if text == "+":
        return not_empty
    if text == "gzip":
        return between_or(1, 9, -1)
    low, is_range, high = text.partition("..")
    if is_range:
        return between(_bound(low), _bound(high))
    if text.startswith("~"):
        return one_of_any_case(*text[1:].split("|"))
    return one_of(*text.split("|"))


def _definition(row: str) -> Definition:
    name, kind, default, update, check = row.split(" ")
    return Definition(
        name,
        ConfigType[kind.upper()],
        _DEFAULTS_HERE.get(name, {"-": None, '""': ""}.get(default, default)),
        _check(check),
        _MEANINGS.get(name, NO_MEANING),
        update=Update.READ_ONLY if name in _FIXED_AT_START else Update(update),
        meaningful=name in _MEANINGS,
    )


KAFKA_BROKER_CONFIGS: dict[str, Definition] = {
    each.name: each for each in map(_definition, BROKER_ROWS.splitlines())
}

OF_AUTHORIZER = (
    Definition(
        "allow.everyone.if.no.acl.found",
        ConfigType.BOOLEAN,
        "false",
        documentation="Whether all clients may use a resource for which there is no ACL.",
        update=Update.READ_ONLY,
    ),
    Definition(
        "super.users",
        ConfigType.STRING,
        "",
        documentation="Principals that may do everything, divided by semicolons: User:NAME;...",
        update=Update.READ_ONLY,
    ),
)
"""Kafka's authorizer reads these; its brokers do not list them."""

BROKER_CONFIGS: dict[str, Definition] = KAFKA_BROKER_CONFIGS | {
    each.name: each for each in (*OF_AUTHORIZER, *OWN_SETTINGS)
}
