"""The commands of `tidegate link`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import DEV_DATA, DataOfCluster, Json, LogThatExists, Yes
from . import carry_command
from .options import Name, Properties

app = typer.Typer(
    help="Topics of a classic Kafka cluster, mirrored here.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(carry_command.app)

Servers = Annotated[
    str,
    typer.Option(metavar="HOST:PORT,...", help="Brokers of the source; all of them are found."),
]
OneName = Annotated[str | None, typer.Argument(metavar="NAME", help="A link that exists.")]
OtherServers = Annotated[
    str | None,
    typer.Option("--bootstrap-servers", metavar="HOST:PORT,...", help="Brokers of a source."),
]
Patterns = Annotated[
    list[str] | None,
    typer.Option(
        "--topics",
        metavar="PATTERN",
        help="Topics whose whole name matches; may be repeated.",
    ),
]


@app.command("check")
def check_source(
    name: OneName = None,
    bootstrap_servers: OtherServers = None,
    topics: Patterns = None,
    client_properties: Properties = None,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    json: Json = False,
) -> None:
    """Check that a source can be reached and read; exit code 1 if something is missing.

    It changes nothing.  Run it on a gateway's machine, since the gateways must reach the source.
    """
    from ..existing_cluster import ClusterOptions
    from .looks import LookOptions, run_check

    options = LookOptions(name, bootstrap_servers, tuple(topics or ()), client_properties)
    raise typer.Exit(run_check(ClusterOptions(data, log), options, as_json=json))


@app.command("plan")
def plan_link(
    name: OneName = None,
    bootstrap_servers: OtherServers = None,
    topics: Patterns = None,
    rate: Annotated[
        float,
        typer.Option(min=0.1, metavar="MIB", help="MiB a second, for the estimate of the time."),
    ] = 50.0,
    rehearse: Annotated[
        bool,
        typer.Option(
            "--rehearse",
            help="Read a part of each topic, check it, and estimate from that what copy and switch"
            " take.",
        ),
    ] = False,
    client_properties: Properties = None,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    json: Json = False,
) -> None:
    """Show the topics that a link mirrors or would mirror, their sizes, and what stands in the way.

    It changes nothing.  With --rehearse it reads at most 64 MiB, but at least one batch of each
    topic.  The exit code is 1 if a topic cannot be mirrored, or a rehearsal names a problem.
    """
    from ..existing_cluster import ClusterOptions
    from .looks import LookOptions, run_plan

    options = LookOptions(name, bootstrap_servers, tuple(topics or ()), client_properties)
    cluster = ClusterOptions(data, log)
    code = run_plan(cluster, options, mib_per_second=rate, rehearses=rehearse, as_json=json)
    raise typer.Exit(code)


@app.command("add")
def add_link(
    name: Name,
    bootstrap_servers: Servers,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Mirror topics whose whole name matches, also later ones; may be repeated.",
        ),
    ] = None,
    client_properties: Properties = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Change the link if there is one of this name.")
    ] = False,
    forward_writes: Annotated[
        bool | None,
        typer.Option(
            "--forward-writes/--no-forward-writes",
            help="Gateways forward what clients write to the source; with --replace as before.",
            show_default=False,
        ),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUP",
            help="Gateways forward this group to the source until it is moved; may be repeated, and"
            " end with *, or be empty for none; with --replace as before.",
        ),
    ] = None,
    transactional_ids: Annotated[
        list[str] | None,
        typer.Option(
            "--transactional-ids",
            metavar="ID",
            help="Gateways forward this transactional id to the source until it is moved; as"
            " --groups. It needs --forward-writes.",
        ),
    ] = None,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    json: Json = False,
) -> None:
    """Link this cluster to another one, the source, and mirror topics of it.

    Nothing is written at the source, unless gateways forward writes. The copies have the same
    names, topic ids, partitions, configs and offsets; clients can read them here.
    """
    from ..existing_cluster import ClusterOptions
    from .commands import NewLink, run_add

    link = NewLink(
        name,
        bootstrap_servers,
        tuple(topics or ()),
        client_properties,
        replace,
        forward_writes,
        tuple(filter(None, groups)) if groups else None,
        tuple(filter(None, transactional_ids)) if transactional_ids else None,
    )
    raise typer.Exit(run_add(ClusterOptions(data, log), link, as_json=json))


@app.command("status")
def link_status(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One link; all.")] = None,
    client_properties: Properties = None,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    json: Json = False,
) -> None:
    """Show how far the copies of a link's topics are.

    With NAME it asks the source for its ends; without NAME, it lists the links.  The exit code is 1
    if the source is silent, if a topic is not mirrored, or if the source has records from after a
    switch.
    """
    from ..existing_cluster import ClusterOptions
    from .commands import run_list, run_status

    cluster = ClusterOptions(data, log)
    if name is None:
        raise typer.Exit(run_list(cluster, as_json=json))
    raise typer.Exit(run_status(cluster, name, client_properties, as_json=json))


@app.command("verify")
def verify_link(
    name: Name,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this topic; may be repeated."),
    ] = None,
    records: Annotated[
        bool,
        typer.Option("--records", help="Compare records, not batches: slower."),
    ] = False,
    gateway: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="A gateway to read from; not given: any."),
    ] = None,
    client_properties: Properties = None,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    json: Json = False,
) -> None:
    """Read the copies of a link's topics, and compare each batch with the source's.

    Without --records it compares the CRC of each batch, which covers its records, keys, headers and
    time stamps.  The exit code is 1 if anything differs, or if a topic that the link names is not
    here.
    """
    from ..existing_cluster import ClusterOptions
    from .verify import VerifyOptions, run_verify

    options = VerifyOptions(name, tuple(topic or ()), records, gateway, client_properties)
    raise typer.Exit(run_verify(ClusterOptions(data, log), options, as_json=json))


@app.command("switch")
def switch_topics(
    name: Name,
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC...", help="Topics that the link mirrors.")
    ] = None,
    max_behind: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Refuse if a copy is more offsets behind."),
    ] = 10_000,
    groups: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUP",
            help="A group that gateways forward moves with the topics; may be repeated.",
        ),
    ] = None,
    transactional_ids: Annotated[
        list[str] | None,
        typer.Option(
            "--transactional-ids",
            metavar="ID",
            help="Transactional ids move with the topics, as the link names them; may be repeated.",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the commands that unfence the source there."),
    ] = None,
    client_properties: Properties = None,
    yes: Yes = False,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    json: Json = False,
) -> None:
    """Make topics that a link mirrors this cluster's own, all of them or none.

    The gateways keep writers waiting, fence the topics at the source with max.message.bytes=0, and
    let the copies reach its ends.  If this takes longer than 4 seconds, nothing is switched.
    Offsets and the sequences of producers continue.  The exit code is 1 if nothing was switched.
    """
    from ..existing_cluster import ClusterOptions
    from .switch import SwitchOptions, run_switch

    options = SwitchOptions(
        name,
        tuple(topics or ()),
        max_behind,
        save,
        client_properties,
        yes,
        tuple(groups or ()),
        tuple(transactional_ids or ()),
    )
    raise typer.Exit(run_switch(ClusterOptions(data, log), options, as_json=json))


@app.command("rollback")
def roll_back(
    name: Name,
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC...", help="Topics that were switched.")
    ] = None,
    max_behind: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Let writers wait once the source lacks so much."),
    ] = 1_000,
    only_reverse: Annotated[
        bool, typer.Option("--only-reverse", help="Write back, and leave the topics here.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Write back no more; without topics: to none.")
    ] = False,
    yes: Yes = False,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    json: Json = False,
) -> None:
    """Return switched topics to their source, with all that was written since the switch.

    The gateways open the source, and write back to it, at the same offsets.  Then they keep writers
    waiting until the source has all records, and forward writes to it from then on.  If this takes
    longer than 4 seconds, the topics stay here.  The exit code is 1 if nothing was returned.
    """
    from ..existing_cluster import ClusterOptions
    from .rollback import RollbackOptions, run_rollback

    options = RollbackOptions(name, tuple(topics or ()), max_behind, only_reverse, cancel, yes)
    raise typer.Exit(run_rollback(ClusterOptions(data, log), options, as_json=json))


@app.command("finish")
def finish_switches(
    name: Name,
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC...", help="Topics that were switched; all.")
    ] = None,
    client_properties: Properties = None,
    yes: Yes = False,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    json: Json = False,
) -> None:
    """End the watch over the source of topics that were switched. Nothing changes there.

    Records that were written there after the switch are named first: they will never be here.
    """
    from ..existing_cluster import ClusterOptions
    from .switch import run_finish

    cluster = ClusterOptions(data, log)
    names = tuple(topics or ())
    raise typer.Exit(run_finish(cluster, name, names, client_properties, yes=yes, as_json=json))


@app.command("move-groups")
def move_groups(
    name: Name,
    groups: Annotated[
        list[str] | None, typer.Argument(metavar="GROUP...", help="Groups of the source.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the offsets that a group has here.")
    ] = False,
    gateway: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="A gateway to commit at; not given: any."),
    ] = None,
    client_properties: Properties = None,
    yes: Yes = False,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    json: Json = False,
) -> None:
    """Take groups over from the source, with their committed offsets.

    If gateways forward a group (link add --groups), its members continue here at once.  For any
    other group, stop its consumers, move it, and start them at the gateways: they continue where
    they were.  It waits until the copies reach the offsets.  Nothing changes at the source.
    """
    from ..existing_cluster import ClusterOptions
    from .groups import GroupOptions, run_move_groups

    options = GroupOptions(name, tuple(groups or ()), gateway, replace, client_properties, yes)
    raise typer.Exit(run_move_groups(ClusterOptions(data, log), options, as_json=json))


@app.command("remove")
def remove_link(
    name: Name,
    delete_topics: Annotated[
        bool, typer.Option("--delete-topics", help="Delete the copies of its topics here.")
    ] = False,
    yes: Yes = False,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    json: Json = False,
) -> None:
    """Remove a link. Nothing changes at the source.

    The exit code is 1 if it was not removed.
    """
    from ..existing_cluster import ClusterOptions
    from .commands import run_remove

    cluster = ClusterOptions(data, log)
    raise typer.Exit(run_remove(cluster, name, deletes=delete_topics, yes=yes, as_json=json))
