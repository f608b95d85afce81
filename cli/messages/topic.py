"""`telesto topic subscribe|unsubscribe|put|get|list|show|delete`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from telesto.cli.common import completion
from telesto.cli.common.durations import duration_option
from telesto.cli.common.options import DEFAULT_URL, ClientName, Json, Like, Limit, Url
from telesto.cli.messages.get import Count, Follow, Wait
from telesto.cli.messages.put import Body, File, Headers, Lines, headers_of
from telesto.cli.terminal import output

if TYPE_CHECKING:
    from telesto.client import Subscription, TopicPutResult, TopicStatistics

Name = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC",
        help="The name of the topic, 1 to 1,024 characters.",
        autocompletion=completion.topics,
    ),
]
OptionalName = Annotated[
    str | None,
    typer.Argument(metavar="TOPIC", help="The name of the topic.", autocompletion=completion.topics),
]
Subscriber = Annotated[
    str | None,
    typer.Option(
        "--client",
        metavar="NAME",
        autocompletion=completion.clients,
        help="The client that subscribes; created if necessary.",
    ),
]


def subscribe(
    topic: Name,
    max_behind: Annotated[
        int | None,
        typer.Option(
            "--max-behind",
            metavar="N",
            min=1,
            help="The subscription lags if it is further behind than this.",
        ),
    ] = None,
    max_age: Annotated[
        float | None,
        duration_option("--max-age", least=0.001, help="The subscription lags if its next message is older."),
    ] = None,
    drop: Annotated[bool, typer.Option("--drop", help="End the subscription when it lags.")] = False,
    url: Url = DEFAULT_URL,
    client_name: Subscriber = None,
    as_json: Json = False,
) -> None:
    """Subscribe a client to a topic: it gets every message that is put from now on, until it unsubscribes."""
    from telesto.cli.common.connection import connected, require_name
    from telesto.cli.terminal.exit_codes import ExitCode
    from telesto.cli.terminal.failures import CommandError, usage_error
    from telesto.client import AlreadySubscribedError

    if drop and max_behind is None and max_age is None:
        raise usage_error("--drop needs a limit: give --max-behind or --max-age")
    require_name(url, client_name)
    with connected(url, client_name) as client:
        try:
            subscription_id = client.topic(topic).subscribe(
                max_behind=max_behind, max_age=max_age, drop=drop, existing="error"
            )
        except AlreadySubscribedError as error:
            raise CommandError(f"{client.name} already subscribes to {topic!r}", ExitCode.REFUSED) from error
    if as_json:
        output.print_json({"subscription_id": subscription_id, "topic": topic})
    else:
        output.print_line(f"subscribed to {topic}")


def unsubscribe(
    topic: Name, url: Url = DEFAULT_URL, client_name: Subscriber = None, as_json: Json = False
) -> None:
    """End a client's subscription to a topic; it loses the messages that it has not got yet."""
    from telesto.cli.common.connection import connected, require_name
    from telesto.cli.messages.subscriptions import explained_subscription

    require_name(url, client_name)
    with connected(url, client_name) as client, explained_subscription(client, topic):
        client.topic(topic).unsubscribe()
    if as_json:
        output.print_json({"topic": topic})
    else:
        output.print_line(f"unsubscribed from {topic}")


def put(
    topic: Name,
    body: Body = None,
    lines: Lines = None,
    file: File = None,
    sequence: Annotated[
        int | None,
        typer.Option(
            "--sequence",
            metavar="N",
            min=1,
            help="The client's own number of the message in this topic; each is stored once, without gaps.",
        ),
    ] = None,
    header: Headers = None,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """Put a message, or every line of a file, to a topic. A topic without subscribers keeps no messages."""
    from telesto.cli.common.connection import connected
    from telesto.cli.messages.put_lines import Destination, put_lines
    from telesto.cli.terminal import inputs
    from telesto.cli.terminal.failures import usage_error
    from telesto.client import NewTopicMessage

    inputs.check_one_given(body, lines, file)
    headers = headers_of(header)
    if lines is not None:
        if sequence is not None:
            raise usage_error("--sequence numbers one message; --lines puts many")
        with inputs.opened(lines) as source, connected(url, client_name) as client:

            def put_bodies(bodies: list[bytes]) -> list[TopicPutResult]:
                messages = [NewTopicMessage(each, headers=headers) for each in bodies]
                return client.topic(topic).put_many(messages)

            put_lines(Destination(topic, {"topic": topic}, put_bodies), source, as_json)
        return
    content = inputs.read_body(body, file)
    with connected(url, client_name) as client:
        result = client.topic(topic).put_many([NewTopicMessage(content, sequence, headers)])[0]
        if result.error is not None:
            raise result.error
    if as_json:
        output.print_json({"topic": topic, "number": result.number, "duplicate": result.duplicate})
    elif result.duplicate:
        known = f", as message {result.number}" if result.number else ""
        output.print_line(f"{topic} already has this message{known}")
    else:
        output.print_line(f"put message {result.number} to {topic}")


def get(
    topic: OptionalName = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", "-a", help="Get from all topics that the client subscribes to.")
    ] = False,
    wait: Wait = 0.0,
    count: Count = None,
    follow: Follow = False,
    url: Url = DEFAULT_URL,
    client_name: Subscriber = None,
    as_json: Json = False,
) -> int:
    """Get messages that a client subscribes to and print their bodies as they are, a newline after each.

    Telesto confirms a message after it is written, not before: if this command is interrupted or killed, the
    messages that were not written come again. If it is killed between the two, a message comes twice; --json
    shows its number. The exit code is 4 when there was no message.
    """
    from telesto.cli.common.connection import require_name
    from telesto.cli.messages.get_from_topics import get_from_topics
    from telesto.cli.messages.taking import TakePlan
    from telesto.cli.terminal.failures import usage_error

    if all_topics == (topic is not None):
        raise usage_error("give either a TOPIC or --all-topics")
    require_name(url, client_name)
    return get_from_topics(url, client_name, topic, TakePlan(wait, count, follow), as_json)


def list_topics(
    mine: Annotated[
        bool, typer.Option("--mine", help="List only the client's subscriptions, and how far behind each is.")
    ] = False,
    like: Like = None,
    limit: Limit = None,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """List the topics. Columns: messages ever put, subscribers, waiting messages, name."""
    from telesto.cli.common.connection import connected, require_name
    from telesto.cli.terminal.failures import usage_error

    if mine:
        if like is not None or limit is not None:
            raise usage_error("--mine lists all subscriptions; leave out --like and --limit")
        require_name(url, client_name)
    with connected(url, client_name) as client:
        if mine:
            _print_subscriptions(client.subscriptions(), as_json)
        else:
            _print_topics(client.topics(like, limit=limit), like, as_json)


def show(topic: Name, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Show how many messages were put to a topic, who gets them and how many wait."""
    from telesto.cli.common.connection import connected
    from telesto.cli.terminal.exit_codes import ExitCode
    from telesto.cli.terminal.failures import CommandError

    with connected(url, None) as client:
        # The name may contain wildcards.
        found = next((one for one in client.topics(topic) if one.name == topic), None)
    if found is None:
        raise CommandError(f"there is no topic {topic!r}; telesto topic list shows them", ExitCode.REFUSED)
    if as_json:
        output.print_json(_as_dict(found))
        return
    output.print_properties(
        {
            "topic": found.name,
            "id": found.topic_id,
            "messages put": found.last_number,
            "subscribers": found.subscribers,
            "waiting for a subscriber": found.depth,
        }
    )


def delete(
    topic: Name, url: Url = DEFAULT_URL, client_name: ClientName = None, as_json: Json = False
) -> None:
    """Delete a topic that has no subscriptions. A new topic of its name begins at number 1."""
    from telesto.cli.common.connection import connected
    from telesto.cli.terminal.exit_codes import ExitCode
    from telesto.cli.terminal.failures import CommandError
    from telesto.client import TopicInUseError, TopicNotExistingError

    with connected(url, client_name) as client:
        try:
            client.topic(topic).delete()
        except TopicNotExistingError as error:
            raise CommandError(f"there is no topic {topic!r}", ExitCode.REFUSED) from error
        except TopicInUseError as error:
            raise CommandError(
                f"the topic {topic!r} has subscribers; it can be deleted when it has none", ExitCode.REFUSED
            ) from error
    if as_json:
        output.print_json({"topic": topic})
    else:
        output.print_line(f"deleted the topic {topic}")


def _as_dict(topic: TopicStatistics) -> dict[str, object]:
    fields = asdict(topic)
    return {"topic": fields.pop("name"), **fields}


def _print_topics(topics: list[TopicStatistics], like: str | None, as_json: bool) -> None:
    output.print_list(
        topics,
        (
            output.Column("put", lambda topic: topic.last_number),
            output.Column("subscribers", lambda topic: topic.subscribers),
            output.Column("waiting", lambda topic: topic.depth),
            output.Column("topic", lambda topic: topic.name, cut=True),
        ),
        as_json=as_json,
        as_dict=_as_dict,
        empty="There are no topics yet. Subscribe to one with: telesto topic subscribe TOPIC --client NAME"
        if like is None
        else f"No topic has a name like {like}.",
    )


def _print_subscriptions(subscriptions: list[Subscription], as_json: bool) -> None:
    output.print_list(
        subscriptions,
        (
            output.Column("position", lambda one: one.position),
            output.Column("behind", lambda one: one.lag),
            output.Column("state", lambda one: one.state.name.lower()),
            output.Column("topic", lambda one: one.topic, cut=True),
        ),
        as_json=as_json,
        as_dict=lambda one: {**asdict(one), "lag": one.lag, "state": one.state.name.lower()},
        empty="This client subscribes to no topic.",
    )


HELP = "Publish and subscribe: every subscriber of a topic gets each of its messages."
SUBCOMMANDS = {
    "subscribe": subscribe,
    "unsubscribe": unsubscribe,
    "put": put,
    "get": get,
    "list": list_topics,
    "show": show,
    "delete": delete,
}
