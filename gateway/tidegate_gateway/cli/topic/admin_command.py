"""The commands `tidegate topic create`, `list`, `describe`, `alter` and `delete`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..kafka.options import Bootstrap, ClientFile, KafkaPlace, TopicName
from ..options import Json, Yes

app = typer.Typer(rich_markup_mode=None)

Partitions = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="How many.", show_default="the cluster's num.partitions"),
]
Configs = Annotated[
    list[str] | None,
    typer.Option("--config", metavar="NAME=VALUE", help="A config of it; may be repeated."),
]


@app.command("create")
def create_topic(
    topic: TopicName,
    partitions: Partitions = None,
    replicas: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Replicas of each.", show_default="the cluster's"),
    ] = None,
    config: Configs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if there is one of this name.")
    ] = False,
    bootstrap: Bootstrap = None,
    properties: ClientFile = None,
    json: Json = False,
) -> None:
    """Make a topic; the exit code is 1 if the cluster refuses it."""
    from .admin import CreateOptions, run_create

    options = CreateOptions(topic, partitions, replicas, tuple(config or ()), if_not_exists)
    raise typer.Exit(run_create(KafkaPlace(bootstrap, properties), options, as_json=json))


@app.command("list")
def list_topics(
    internal: Annotated[
        bool, typer.Option("--internal", help="Also topics such as __consumer_offsets.")
    ] = False,
    bootstrap: Bootstrap = None,
    properties: ClientFile = None,
    json: Json = False,
) -> None:
    """Show the topics of a cluster."""
    from .admin import run_list

    place = KafkaPlace(bootstrap, properties)
    raise typer.Exit(run_list(place, shows_internal=internal, as_json=json))


@app.command("describe")
def describe_topic(
    topic: TopicName,
    all_configs: Annotated[
        bool, typer.Option("--all-configs", help="Also configs that are defaults.")
    ] = False,
    bootstrap: Bootstrap = None,
    properties: ClientFile = None,
    json: Json = False,
) -> None:
    """Show partitions, offsets and configs of a topic; the exit code is 1 if there is none."""
    from .admin import run_describe

    place = KafkaPlace(bootstrap, properties)
    raise typer.Exit(run_describe(place, topic, shows_defaults=all_configs, as_json=json))


@app.command("alter")
def alter_topic(
    topic: TopicName,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Have so many; a topic never loses any."),
    ] = None,
    config: Configs = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Return to the default of it; may be repeated."),
    ] = None,
    bootstrap: Bootstrap = None,
    properties: ClientFile = None,
    json: Json = False,
) -> None:
    """Change configs of a topic, or add partitions; the exit code is 1 if that is refused.

    With more partitions, a key may belong to another partition than before.
    """
    from .admin import AlterOptions, run_alter

    options = AlterOptions(topic, partitions, tuple(config or ()), tuple(delete_config or ()))
    raise typer.Exit(run_alter(KafkaPlace(bootstrap, properties), options, as_json=json))


@app.command("delete")
def delete_topics(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="Their names.")],
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    properties: ClientFile = None,
    json: Json = False,
) -> None:
    """Delete topics and their records, for good; the exit code is 1 if one is not deleted."""
    from .admin import run_delete

    place = KafkaPlace(bootstrap, properties)
    raise typer.Exit(run_delete(place, tuple(topics), yes=yes, as_json=json))
