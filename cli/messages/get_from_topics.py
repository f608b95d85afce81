"""Gets messages of topics."""

from __future__ import annotations

import json

from telesto.cli.common.connection import connected
from telesto.cli.messages.message_lines import as_raw_line, body_fields, headers_field
from telesto.cli.messages.subscriptions import explained_subscription
from telesto.cli.messages.taking import TakePlan, Taking, exit_code
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.client import ClientOptions, TopicMessage


def get_from_topics(
    url: str, client_name: str | None, topic: str | None, plan: TakePlan, as_json: bool
) -> ExitCode:
    """Get and write messages of a topic, or of all topics for None; NOTHING if there were none.

    Raises OutputClosedError if the reader of the output goes away.
    """
    with (
        connected(url, client_name, ClientOptions(auto_confirm=False)) as client,
        explained_subscription(client, topic),
    ):
        source = client.subscribed_topics if topic is None else client.topic(topic)

        def read(count: int, timeout: float | None) -> list[TopicMessage]:
            return source.get_many(count, timeout=timeout)

        to_line = _as_json_line if as_json else as_raw_line
        written = Taking(client, read, to_line, plan).run()
    return exit_code(written, topic or "any topic")


def _as_json_line(message: TopicMessage) -> bytes:
    fields = {
        "topic": message.topic,
        "number": message.number,
        "sender_id": message.sender_id,
        "time_of_arrival": message.time_of_arrival.isoformat(timespec="microseconds"),
        **headers_field(message.headers),
        **body_fields(message.body),
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"
