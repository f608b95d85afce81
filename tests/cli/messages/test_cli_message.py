"""`telesto message show`, and the settings of what a queue keeps."""

import time

import pytest

from command_line import TIMEOUT_S, CommandLine
from telesto.cli.terminal.exit_codes import ExitCode
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
    with client.queue(queue_id).consume() as consumer:
        leased = consumer.get(20)
        assert leased is not None
        (record,) = telesto.objects("message", "show", message_id)
        assert record["state"] == "leased"
        shown = telesto.output("message", "show", message_id).decode()
        assert f"\nconsumer id\t{record['consumer_id']}\nlease id\t{record['lease_id']}\n" in shown
        assert "\nlease ends\t20" in shown
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


def test_what_is_shown_can_be_pasted_into_other_commands(telesto: CommandLine, client: TelestoClient) -> None:
    queue = client.create_queue("a queue of several words", history=HistoryMode.FULL)
    message_id = put(client, queue.name, b"hello")
    assert telesto.output("get", queue.name, "--client", "a reader") == b"hello\n"
    lines = telesto.output("message", "show", message_id).decode().splitlines()
    shown = dict(line.split("\t") for line in lines)
    assert (shown["put by"], shown["handed over to"]) == ("preparing", "a reader")
    assert telesto.objects("queue", "show", shown["queue"])[0]["queue_id"] == int(shown["queue id"])
    assert telesto.output("put", shown["queue"], "for it", "--receiver", shown["client id"])
    read = telesto.objects("get", shown["queue"], "--client", shown["handed over to"])
    assert read[0]["body"] == "for it"
    put(client, queue.name, b"again")
    read = telesto.objects("get", shown["queue"], "--sender", shown["sender id"])
    assert read[0]["body"] == "again"
    (again,) = telesto.objects("message", "show", shown["message"])
    assert again["body"] == "hello"


def test_a_queue_that_is_gone_is_shown_by_its_id(telesto: CommandLine, client: TelestoClient) -> None:
    queue = client.create_queue("passing", history=HistoryMode.FULL)
    message_id = put(client, queue.name, b"hello")
    client.delete_queue(queue.queue_id)
    # The history has the message when the middleware has removed what the queue held.
    deadline = time.monotonic() + TIMEOUT_S
    while telesto.run("message", "show", message_id).returncode == 1:
        assert time.monotonic() < deadline
    shown = telesto.output("message", "show", message_id).decode()
    assert f"\nqueue\t-\nqueue id\t{queue.queue_id}\n" in shown
    assert "deleted with its queue" in shown


def test_a_delayed_message_is_shown_with_its_time(
    telesto: CommandLine, client: TelestoClient, kept: str
) -> None:
    message_id = str(client.put_message(client.get_queue_by_name(kept).queue_id, b"later", delay=3_600))
    (record,) = telesto.objects("message", "show", message_id)
    assert (record["state"], record["due_at"][:2]) == ("delayed", "20")
    assert b"can be read from" in telesto.output("message", "show", message_id)


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


def test_a_message_that_waits_is_cancelled(telesto: CommandLine, client: TelestoClient, kept: str) -> None:
    message_id = put(client, kept, b"hello")
    said = telesto.output("message", "cancel", message_id, "--queue", kept).decode()
    assert said == f"cancelled message {message_id} in {kept}\n"
    assert telesto.objects("message", "show", message_id)[-1]["state"] == "cancelled"
    refusal = telesto.error(ExitCode.REFUSED, "message", "cancel", message_id, "--queue", kept)
    assert f"message {message_id} is not waiting in {kept}" in refusal


def test_a_message_to_cancel_is_looked_for(telesto: CommandLine, client: TelestoClient, kept: str) -> None:
    for options in ((), ("--delay", "1h"), ("--partition-key", "a key")):
        message_id = telesto.output("put", kept, "hello", "--ids", *options).decode().strip()
        said = telesto.output("message", "cancel", message_id).decode()
        assert said == f"cancelled message {message_id} in {kept}\n"
        assert telesto.objects("message", "show", message_id)[-1]["state"] == "cancelled"
        refusal = telesto.error(ExitCode.REFUSED, "message", "cancel", message_id)
        assert f"message {message_id} is not waiting; see: telesto message show {message_id}" in refusal
    assert "MESSAGE_NOT_EXISTING" in telesto.error(ExitCode.REFUSED, "message", "cancel", "999999999")


def test_a_client_that_is_gone_is_said_to_be(telesto: CommandLine, kept: str) -> None:
    message_id = telesto.output("put", kept, "hello", "--ids").decode().strip()
    assert telesto.output("get", kept, "--count", "99").endswith(b"hello\n")
    lines = telesto.output("message", "show", message_id).decode().splitlines()
    shown = dict(line.split("\t") for line in lines)
    assert shown["put by"] == shown["handed over to"]
    assert shown["put by"] == "a client that no longer exists, such as a temporary one"
    (record,) = telesto.objects("message", "show", message_id)
    assert (record["sender_name"], record["client_name"]) == (None, None)
