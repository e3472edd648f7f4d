"""Tidegate's own settings: dotted like Kafka's, with Kafka's unit suffixes.  All are read once.

Byte sizes are powers of two.  Addresses can hold credentials, so they are never shown.
"""

from __future__ import annotations

from .definition import Check, ConfigType, Definition, Update, at_least, between, one_of

_MIB = 1 << 20


def _own(
    name: str, kind: ConfigType, default: int | str | None, check: Check | None, doc: str
) -> Definition:
    text = None if default is None else str(default)
    return Definition(name, kind, text, check, doc, update=Update.READ_ONLY)


_INT, _LONG, _DOUBLE = ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE
_STRING, _LIST = ConfigType.STRING, ConfigType.LIST
_ADDRESS = _SECRET = ConfigType.PASSWORD

OWN_SETTINGS = (
    _own("admin.listener", _STRING, None, None,
         "host:port of health checks and metrics; not set: none."),
    _own("admin.security.protocol", _STRING, "PLAINTEXT", one_of("PLAINTEXT", "SSL"),
         "SSL: the pages of admin.listener come over TLS, with the stores of"
         " listener.name.admin.ssl.*, else ssl.*."),
    _own("admin.token", _SECRET, "", None,
         "A secret that all pages of admin.listener but those of health need, as"
         " `Authorization: Bearer TOKEN`, unless the client shows a certificate; empty: none is"
         " needed."),
    _own("allow.plaintext.listeners", ConfigType.BOOLEAN, "false", None,
         "Whether a listener of PLAINTEXT may be open to other machines: any client that reaches it"
         " may do everything that an unnamed client may do.  Also whether peer.token and"
         " admin.token may leave this machine without TLS."),
    _own("audit.log.file", _STRING, None, None,
         "File for logins, denials and what clients change, one JSON object a line; see `tidegate"
         " audit verify`.  Not set: none."),
    _own("authorizer.max.staleness.ms", _LONG, 10_000, at_least(1000),
         "With an authorizer: if the metadata log has not answered for so long, other gateways may"
         " have changed the ACLs, and this one sends producers and consumers to others."),
    _own("buffered.bytes.max", _LONG, 512 * _MIB, at_least(128 * _MIB),
         "Bytes of produce requests held in memory; above it, Produce waits.  Objects being stored"
         " take up to half of it in addition."),
    _own("cluster.id", _STRING, None, None,
         "The cluster this gateway must belong to; not set: the metadata log's."),
    _own("cost.interval.ms", _LONG, 3_600_000, at_least(60_000),
         "How often the gateway writes what it cost into the object store, one PUT each time; a"
         " crash loses the last interval."),
    _own("cost.retention.ms", _LONG, 35 * 86_400_000, at_least(86_400_000),
         "How long these sums are kept."),
    _own("disk.cache.dir", _STRING, None, None,
         "Folder for copies of segment parts that were read; they may be lost or deleted at any"
         " time.  Not set: no copies."),
    _own("disk.cache.max.bytes", _LONG, 10_240 * _MIB, at_least(0),
         "The most disk space that the files in disk.cache.dir take."),
    _own("drain.grace.ms", _LONG, 4000, at_least(0),
         "A draining gateway closes connections that were silent for so long.  If this is longer"
         " than the clients' heartbeat interval, they learn from it where to go.  During this"
         " time Metadata lists the gateway without partitions."),
    _own("drain.timeout.ms", _LONG, 30_000, at_least(0),
         "How long a gateway may take to stop; two thirds of it wait for its clients to go."),
    _own("fetch.cache.bytes", _LONG, 256 * _MIB, at_least(0),
         "Memory for parts of objects that were written or read.  Replies that wait to be sent, and"
         " reads for other gateways, take as much again, or 64 MiB if that is more."),
    _own("forwarding", _STRING, "auto", one_of("auto", "on", "off"),
         "Whether one gateway appends to the metadata log for all: auto takes the log's preference."
         "  Only a gateway with a peer.listener can be that one."),
    _own("housekeeping.interval.ms", _LONG, 60_000, at_least(1000),
         "How often the gateway looks for expired records and for objects to delete."),
    _own("http.allowed.hosts", _LIST, "", None,
         "Names in a Host header that admin.listener and peer.listener answer without a token, in"
         " addition to IP addresses, names of listeners, and names that no public DNS has; *: any"
         " name, so that web pages may read the answers by DNS rebinding."),
    _own("instance.key", _STRING, None, None,
         "Distinguishes a restart of this gateway from another gateway with its node id; not set: a"
         " key in the data folder."),
    _own("lease.ms", _LONG, 30_000, at_least(3000),
         "If a gateway writes no entry for so long, its lease expires; fixed when the cluster is"
         " created."),
    _own("link.client.properties", _LIST, "", None,
         "Files with the client properties of links to classic Kafka clusters: NAME=FILE,...  Not"
         " given for a link: PLAINTEXT."),
    _own("link.fetch.wait.ms", _INT, 1000, between(1, 60_000),
         "How long the source of a link waits for 256 KiB of new records before it answers a fetch;"
         " so far may mirrored topics be behind.  A fetch of more than 100 partitions is answered"
         " at once, and the gateway waits before the next one."),
    _own("link.forward.bytes.max", _LONG, 64 * _MIB, at_least(_MIB),
         "Bytes of batches that this gateway forwards to sources of links and that lack an answer;"
         " above it, the next such Produce request waits."),
    _own("link.group.requests.max", _INT, 500, between(1, 900),
         "Requests of consumer groups that wait for the source of a link, each on a connection of"
         " its own; above it, clients have to try again."),
    _own("link.held.bytes.max", _LONG, 32 * _MIB, at_least(_MIB),
         "Bytes of mirrored batches that are not committed yet; above it, the gateway fetches no"
         " more from any source."),
    _own("link.proxy.properties", _LIST, "", None,
         "Files with the client properties to forward writes and groups with: NAME=FILE,...  Not"
         " given for a link: those of link.client.properties."),
    _own("link.topics.interval.ms", _LONG, 10_000, at_least(1000),
         "How often topics, partitions and configs of a link's source are looked at."),
    _own("log.backup.interval.ms", _LONG, 60_000, at_least(0),
         "How often new entries of the metadata log are copied to the object store; 0: never."),
    _own("metadata.log", _ADDRESS, "sqlite:data/metadata.db", None,
         "Where the metadata log is: memory:, sqlite:<file>, postgres://<user>@<host>/<database>,"
         " s3://<bucket>/<prefix>, gs:// and az:// alike, dynamodb://<table>/<name>?region=<region>,"
         " http(s)://<host>:<port>/<prefix>, forward:<host>:<port>,..., or a plug-in's address."),
    _own("metadata.log.next", _ADDRESS, "", None,
         "The new address of the metadata log in `tidegate log move`, if this gateway needs another"
         " one than the command's."),
    _own("metadata.secret.key", _SECRET, "", None,
         "A secret of at least 32 characters, without commas and white space, the same for all"
         " gateways, under which they seal SCRAM credentials in the metadata log; empty: they stay"
         " plain there."),
    _own("metadata.secret.old.keys", _SECRET, "", None,
         "Further such keys, with commas between, that open credentials and seal none: the former"
         " ones, or the next one; see docs/operations/sasl.md."),
    _own("object.delete.grace.ms", _LONG, 600_000, at_least(0),
         "How long an unreferenced object is kept for reads under way."),
    _own("object.store", _ADDRESS, "file:data/objects", None,
         "Where records are: memory:, file:<folder>, s3://<bucket>/<prefix>,"
         " gs://<bucket>/<prefix>, az://<container>/<prefix>."),
    _own("orphan.scan.interval.ms", _LONG, 86_400_000, at_least(0),
         "How often the object store is listed for unreferenced objects; 0: never."),
    _own("peer.advertised.listener", _STRING, None, None,
         "Address (host:port) that other gateways use; not set: that of peer.listener."),
    _own("peer.listener", _STRING, None, None,
         "host:port for requests of other gateways, also for records; not set: none."),
    _own("peer.security.protocol", _STRING, "PLAINTEXT", one_of("PLAINTEXT", "SSL"),
         "SSL: gateways ask each other over TLS, with the stores of listener.name.peer.ssl.*, else"
         " ssl.*; the same for all."),
    _own("peer.token", _SECRET, "", None,
         "A secret that gateways send each other, the same for all; empty: none is required."),
    _own("proxy.protocol.listeners", _LIST, "", None,
         "Listeners whose load balancer sends a PROXY header, version 1 or 2: a connection without"
         " one is closed."),
    _own("quota.scope", _STRING, "broker", one_of("broker", "cluster"),
         "broker: each gateway holds clients to their whole quotas, as each broker of Kafka does;"
         " cluster: gateways share quotas of produce, fetch and mutations, over their"
         " peer.listener.  cluster holds for all gateways once a live one has it."),
    _own("record.decompressed.max.bytes", _LONG, 0, at_least(0),
         "The most bytes of the records of a compressed batch; 0: 64 times its topic's"
         " max.message.bytes.  16 MiB and 1000 times the batch is a limit, too.  Of mirrored"
         " batches 1 GiB by default, and no other limit."),
    _own("record.validation", _STRING, "full", one_of("header", "full"),
         "full: check every record, as Kafka does; header: check batches as a whole, and records"
         " only if settings of the topic need it.  Mirrored batches are checked likewise."),
    _own("slow.request.log.ms", _LONG, 1000, at_least(-1),
         "Requests that took so long get a line in the log, with their stages; -1: none.  What a"
         " fetch waits for records does not count, and JoinGroup and SyncGroup wait for members."),
    _own("snapshot.interval.entries", _INT, 10_000, at_least(1),
         "A snapshot is written after so many entries of the metadata log."),
    _own("wal.inline.max.bytes", _INT, 65_536, between(0, 256 * 1024),
         "A WAL object of up to this size travels in the metadata log, and is moved to the object"
         " store later: its records are acknowledged without a PUT; 0: none does."),
    _own("wal.linger.ms", _LONG, 250, at_least(0),
         "How long a batch waits at most for the budget of object store requests."),
    _own("wal.max.object.bytes", _INT, 8 * _MIB, at_least(1024),
         "An object is sealed at this size."),
    _own("wal.put.budget.per.second", _DOUBLE, 8, at_least(0),
         "Tokens per second for writing small objects."),
    _own("wal.put.timeout.ms", _LONG, 30_000, at_least(1000),
         "If an object is not stored by then, the gateway abandons it; its producers try again."),
    _own("wal.upload.slots", _INT, 8, at_least(1),
         "How many objects are written at the same time."),
    _own("zone.cidr.map", _STRING, None, None,
         "Zones by clients' addresses: zone@cidr,cidr<>zone@cidr; zones may not overlap."),
    _own("zone.id.map", _LIST, "", None,
         "Names of zones and their ids, us-east-1a=use1-az4: both are the same zone."),
    _own("zone.listener.map", _LIST, "", None,
         "Zones by listener, LISTENER:zone, for clients that do not send their own."),
    _own("zone.reads", _STRING, "on", one_of("on", "off"),
         "Whether gateways of a zone that have a peer.listener read for each other, so that one"
         " request to the object store serves all of them."),
)  # fmt: skip

ADDRESSES = frozenset({"metadata.log", "metadata.log.next", "object.store"})
"""Settings that are secret only where the address holds a password or a token."""
REMOVED_SETTINGS = frozenset(
    {"disk.cache.send.min.bytes", "forwarding.after.lost.races", "wal.efficient.object.bytes"}
)
"""Names that earlier versions had.  A settings file may still have them; they have no effect."""
