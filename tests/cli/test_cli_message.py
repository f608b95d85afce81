"""`telesto message show`, and the settings of what a queue keeps."""

from __future__ import annotations

import pytest

from command_line import CommandLine
from telesto.client import HistoryMode, TelestoClient


@pytest.fixture
def kept(client: TelestoClient) -> str:
    """A queue that keeps all."""
    name = "kept"
    if name not in {queue.name for queue in client.get_queues()}:
        client.create_queue(name, history=HistoryMode.FULL)
    return name


def put(client: TelestoClient, queue: str, body: bytes) -> str:
    """Put a message and return its id."""
    return str(client.put_message(client.get_queue_by_name(queue).queue_id, body))


def test_a_message_is_shown_while_it_waits_and_when_it_is_over(
    telesto: CommandLine, client: TelestoClient, kept: str
) -> None:
    message_id = put(client, kept, b"hello")
    (waiting,) = telesto.objects("message", "show", message_id)
    assert (waiting["state"], waiting["sender_name"], waiting["ended_at"]) == ("ready", "preparing", None)
    assert "body" not in waiting
    assert b"waits in its queue" in telesto.output("message", "show", message_id)

    assert telesto.output("get", kept) == b"hello\n"
    (over,) = telesto.objects("message", "show", message_id, "--queue", kept)
    assert (over["state"], over["body"], over["attempt"]) == ("confirmed", "hello", 1)
    assert over["put_at"] < over["handed_over_at"] < over["ended_at"]
    shown = telesto.output("message", "show", message_id).decode()
    for part in ("confirmed", "preparing", "handed over", "through", "hello", over["ended_at"][:10]):
        assert part in shown, part


def test_each_hand_over_is_shown(telesto: CommandLine, client: TelestoClient, kept: str) -> None:
    message_id = put(client, kept, b"\xff\x00")
    queue_id = client.get_queue_by_name(kept).queue_id
    with client.consume(queue_id) as consumer:
        leased = consumer.get(20)
        assert leased is not None
        (record,) = telesto.objects("message", "show", message_id)
        assert record["state"] == "leased"
        assert f"consumer {record['consumer_id']}" in telesto.output("message", "show", message_id).decode()
        assert b"has it until" in telesto.output("message", "show", message_id)
        leased.nack(delay=0)
        again = consumer.get(20)
        assert again is not None
        again.ack()
    records = telesto.objects("message", "show", message_id)
    assert [(record["state"], record["reason"]) for record in records] == [
        ("returned", "failed"),
        ("acknowledged", None),
    ]
    assert records[1]["body_base64"] == "/wA="
    assert b"came back" in telesto.output("message", "show", message_id)


def test_a_delayed_message_is_shown_with_its_time(
    telesto: CommandLine, client: TelestoClient, kept: str
) -> None:
    message_id = str(client.put_message(client.get_queue_by_name(kept).queue_id, b"later", delay=3_600))
    (record,) = telesto.objects("message", "show", message_id)
    assert (record["state"], record["due_at"][:2]) == ("delayed", "20")
    assert b"can be read" in telesto.output("message", "show", message_id)


def test_an_unknown_message_is_refused(telesto: CommandLine, client: TelestoClient, kept: str) -> None:
    message_id = put(client, kept, b"x")
    assert "MESSAGE_NOT_EXISTING" in telesto.error(1, "message", "show", "999999999")
    telesto.output("queue", "create", "elsewhere")
    assert "MESSAGE_NOT_EXISTING" in telesto.error(1, "message", "show", message_id, "--queue", "elsewhere")
    assert "nowhere" in telesto.error(1, "message", "show", message_id, "--queue", "nowhere")
    for wrong in ("0", "-1", "x"):
        telesto.error(2, "message", "show", wrong)


def test_what_a_queue_keeps_is_a_setting(telesto: CommandLine) -> None:
    telesto.output("queue", "create", "audit", "--history", "full", "--history-days", "31")
    (shown,) = telesto.objects("queue", "show", "audit")
    assert (shown["history"], shown["history_days"]) == ("full", 31)
    (changed,) = telesto.objects("queue", "update", "audit", "--history", "none")
    assert (changed["history"], changed["history_days"]) == ("none", 31)
    telesto.output("queue", "update", "audit", "--history", "metadata", "--history-days", "1")
    shown_lines = telesto.output("queue", "show", "audit").decode()
    assert "history\tmetadata" in shown_lines
    assert "history_days\t1" in shown_lines
    for wrong in (("--history", "all"), ("--history-days", "0"), ("--history-days", "367")):
        assert wrong[0] in telesto.error(2, "queue", "update", "audit", *wrong)
