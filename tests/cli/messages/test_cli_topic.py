"""`telesto topic`: each command a process of its own, the subscription's place kept between them."""

import json
import os
import signal
import subprocess
import uuid

import pytest

from command_line import TIMEOUT_S, CommandLine
from telesto.client import TelestoClient

# Together more than a pipe holds (64 KiB), so that writing them blocks.
LINE = b"x" * 1000
LINES = 300


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def name() -> str:
    return f"subscriber-{uuid.uuid4().hex[:8]}"


def test_what_is_put_comes_to_each_subscriber_from_command_to_command(
    telesto: CommandLine, topic: str
) -> None:
    names = [f"{topic}-{n}" for n in range(2)]
    for name in names:
        assert (
            telesto.output("topic", "subscribe", topic, "--client", name)
            == f"subscribed to {topic}\n".encode()
        )
    assert telesto.output("topic", "put", topic, "first") == f"put message 1 to {topic}\n".encode()
    telesto.output("topic", "put", topic, "-", stdin=b"second\n")
    for name in names:
        assert telesto.output("topic", "get", topic, "--client", name) == b"first\n"
        assert telesto.output("topic", "get", topic, "--client", name, "--count", "9") == b"second\n\n"
        assert telesto.run("topic", "get", topic, "--client", name).returncode == 4


def test_lines_are_put_in_their_order_and_got_of_all_topics(
    telesto: CommandLine, topic: str, name: str
) -> None:
    for each in (topic, topic + "2"):
        telesto.output("topic", "subscribe", each, "--client", name)
    put = json.loads(telesto.output("topic", "put", topic, "--lines", "-", "--json", stdin=b"1\n2\n3"))
    assert (put["topic"], put["messages"]) == (topic, 3)
    telesto.output("topic", "put", topic + "2", "4")
    got = telesto.objects("topic", "get", "--all-topics", "--client", name, "--count", "9")
    assert [(each["topic"], each["number"], each["body"]) for each in got] == [
        (topic, 1, "1"),
        (topic, 2, "2"),
        (topic, 3, "3"),
        (topic + "2", 1, "4"),
    ]


def test_a_sequence_is_put_once(telesto: CommandLine, topic: str, name: str) -> None:
    put = ("topic", "put", topic, "once", "--sequence", "1", "--client", name)
    assert telesto.output(*put) == f"put message 1 to {topic}\n".encode()
    assert telesto.output(*put) == f"{topic} already has this message, as message 1\n".encode()
    assert telesto.objects(*put) == [{"topic": topic, "number": 1, "duplicate": True}]
    said = telesto.error(1, "topic", "put", topic, "late", "--sequence", "3", "--client", name)
    assert said == (
        f"telesto: the sequence that topic {topic!r} expects next of this client is 2 (SEQUENCE_GAP)\n"
    )
    listed = [each for each in telesto.objects("topic", "list") if each["topic"] == topic]
    assert [each["last_number"] for each in listed] == [1]


def test_topics_and_subscriptions_are_listed(telesto: CommandLine, topic: str, name: str) -> None:
    telesto.output("topic", "subscribe", topic, "--client", name, "--max-behind", "5", "--drop")
    telesto.output("topic", "put", topic, "--lines", "-", stdin=b"1\n2")
    telesto.output("topic", "get", topic, "--client", name)
    (mine,) = telesto.objects("topic", "list", "--mine", "--client", name)
    assert {key: mine[key] for key in ("topic", "position", "lag", "state", "max_behind", "drop")} == {
        "topic": topic,
        "position": 1,
        "lag": 1,
        "state": "active",
        "max_behind": 5,
        "drop": True,
    }
    lines = telesto.output("topic", "list").decode().splitlines()
    assert f"2\t1\t1\t{topic}" in lines
    (only,) = telesto.objects("topic", "list", "--like", topic)
    assert (only["topic"], only["last_number"]) == (topic, 2)
    assert telesto.objects("topic", "show", topic) == [only]
    assert "there is no topic" in telesto.error(1, "topic", "show", topic[:-1] + "?")
    assert "--mine" in telesto.error(2, "topic", "list", "--mine", "--like", "a*", "--client", name)


def test_what_is_subscribed_to_already_or_not_is_said(telesto: CommandLine, topic: str, name: str) -> None:
    telesto.output("topic", "subscribe", topic, "--client", name)
    again = telesto.run("topic", "subscribe", topic, "--client", name)
    assert (again.returncode, again.stderr.decode()) == (
        1,
        f"telesto: {name} already subscribes to {topic!r}\n",
    )
    telesto.output("topic", "unsubscribe", topic, "--client", name)
    for command in (("unsubscribe", topic), ("get", topic), ("get", "--all-topics")):
        said = telesto.error(1, "topic", *command, "--client", name)
        wanted = topic if topic in command else "TOPIC"
        assert said.startswith(f"telesto: {name} does not subscribe to ")
        assert said.endswith(f"subscribe with: telesto topic subscribe {wanted} --client {name}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("subscribe", "t"),
        ("unsubscribe", "t"),
        ("get", "t"),
        ("get", "--client", "c"),
        ("get", "t", "--all-topics", "--client", "c"),
        ("list", "--mine"),
        ("put", "t"),
        ("put", "t", "--lines", "-", "--sequence", "1"),
        ("subscribe", "t", "--drop", "--client", "c"),
        ("subscribe", "", "--client", "c"),
        ("subscribe", "x" * 10_000, "--client", "c"),
        ("put", "a\nb", "body"),
    ],
)
def test_mistakes_in_the_command_line_are_told(telesto: CommandLine, arguments: tuple[str, ...]) -> None:
    result = telesto.run("topic", *arguments)
    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr.startswith(b"telesto: ")


def test_killed_before_its_output_is_read_the_next_run_prints_it_again(
    telesto: CommandLine, topic: str, name: str
) -> None:
    telesto.output("topic", "subscribe", topic, "--client", name)
    bodies = [b"%d %s" % (number, LINE) for number in range(1, LINES + 1)]
    telesto.output("topic", "put", topic, "--lines", "-", stdin=b"\n".join(bodies))
    reading, writing = os.pipe()
    with telesto.started("topic", "get", topic, "--client", name, "--follow", stdout=writing) as process:
        os.close(writing)
        first = os.read(reading, 10)
        process.send_signal(signal.SIGKILL)
        process.wait(TIMEOUT_S)
    with os.fdopen(reading, "rb") as file:
        whole = (first + file.read()).split(b"\n")[:-1]
    assert 0 < len(whole) < LINES
    got = telesto.objects("topic", "get", topic, "--client", name, "--count", "9999")
    numbers = [each["number"] for each in got]
    assert numbers == list(range(numbers[0], LINES + 1))
    # Nothing that was not written is left out; what was may come again.
    assert numbers[0] <= len(whole) + 1


def test_following_goes_on_until_the_reader_leaves(
    telesto: CommandLine, client: TelestoClient, topic: str, name: str
) -> None:
    telesto.output("topic", "subscribe", topic, "--client", name)
    with telesto.started(
        "topic", "get", topic, "--client", name, "--follow", "--json", stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        for n in range(1, 4):
            client.topic(topic).put(b"%d" % n)
            assert json.loads(process.stdout.readline())["number"] == n
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
    assert telesto.run("topic", "get", topic, "--client", name).returncode == 4


def test_a_topic_is_deleted_when_nobody_subscribes(telesto: CommandLine) -> None:
    assert "no topic 'gone'" in telesto.error(1, "topic", "delete", "gone")
    telesto.output("topic", "subscribe", "gone", "--client", "reader")
    assert "the topic 'gone' has subscribers" in telesto.error(1, "topic", "delete", "gone")
    telesto.output("topic", "unsubscribe", "gone", "--client", "reader")
    assert telesto.output("topic", "delete", "gone") == b"deleted the topic gone\n"
    assert "gone" not in telesto.output("topic", "list").decode()
    telesto.output("topic", "put", "gone", "1")
    assert telesto.objects("topic", "delete", "gone") == [{"topic": "gone"}]
