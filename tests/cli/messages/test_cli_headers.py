"""Headers on the command line."""

import json
import sys

import pytest

from command_line import CommandLine

GIVEN = ("--header", "tenant=north", "--header", "note=a=b", "--header", "empty=")
HEADERS = {"tenant": "north", "note": "a=b", "empty": ""}


def test_they_are_put_and_shown(telesto: CommandLine, queue: str) -> None:
    (put,) = telesto.objects("put", queue, "with", *GIVEN)
    telesto.output("put", queue, "without")
    with_headers, without = telesto.objects("browse", queue)
    assert with_headers["headers"] == HEADERS
    assert "headers" not in without
    shown = telesto.output("message", "show", str(put["message_id"])).decode()
    assert "tenant=north" in shown
    assert "note=a=b" in shown
    (record,) = telesto.objects("message", "show", str(put["message_id"]))
    assert record["headers"] == HEADERS
    (taken,) = telesto.objects("get", queue)
    assert taken["headers"] == HEADERS
    telesto.output("get", queue)
    record = telesto.objects("message", "show", str(put["message_id"]))[-1]
    assert (record["state"], record["headers"]) == ("confirmed", HEADERS)


def test_every_line_has_them(telesto: CommandLine, queue: str) -> None:
    telesto.output("put", queue, "--lines", "-", *GIVEN, stdin=b"1\n2\n")
    assert [message["headers"] for message in telesto.objects("get", queue, "--count", "2")] == [HEADERS] * 2


def test_consumers_have_them(telesto: CommandLine, queue: str) -> None:
    telesto.output("put", queue, "x", *GIVEN)
    telesto.output("put", queue, "x")
    command = f"{sys.executable} -c 'import os; print(os.environ.get(\"TELESTO_HEADERS\"))'"
    shown = telesto.output("consume", queue, "--count", "2", "--exec", command).split(b"\n")
    assert json.loads(shown[0]) == HEADERS
    assert shown[1] == b"None"
    telesto.output("put", queue, "x", *GIVEN)
    (message,) = telesto.objects("consume", queue, "--count", "1")
    assert message["headers"] == HEADERS


def test_topics_have_them(telesto: CommandLine) -> None:
    telesto.output("topic", "subscribe", "prices", "--client", "alice")
    telesto.output("topic", "put", "prices", "wheat", *GIVEN)
    telesto.output("topic", "put", "prices", "--lines", "-", *GIVEN, stdin=b"rye\n")
    telesto.output("topic", "put", "prices", "oats")
    messages = telesto.objects("topic", "get", "prices", "--client", "alice", "--count", "3")
    assert [message.get("headers") for message in messages] == [HEADERS, HEADERS, None]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["tenant"], "takes NAME=VALUE, not 'tenant'"),
        (["=north"], "takes NAME=VALUE, not '=north'"),
        (["a=1", "a=2"], "--header a is given twice"),
    ],
)
@pytest.mark.parametrize("command", [("put", "orders"), ("topic", "put", "prices")])
def test_what_is_none_is_refused(
    telesto: CommandLine, command: tuple[str, ...], given: list[str], words: str
) -> None:
    options = [option for header in given for option in ("--header", header)]
    result = telesto.run(*command, "body", *options)
    assert result.returncode == 2
    assert words in result.stderr.decode()


def test_what_the_client_refuses_is_said(telesto: CommandLine, queue: str) -> None:
    result = telesto.run("put", queue, "body", "--header", "note=" + "x" * 1_025)
    assert result.returncode != 0
    assert "1025 bytes" in result.stderr.decode()
    assert b"Traceback" not in result.stderr
