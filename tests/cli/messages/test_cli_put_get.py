import json
import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from command_line import TIMEOUT_S, CommandLine
from faults.waiting import wait_until
from telesto.cli.terminal.inputs import BODY_BYTES_MAX

BINARY = bytes(range(256)) * 3

Put = Callable[..., None]


def test_what_is_put_comes_out(telesto: CommandLine, queue: str) -> None:
    said = telesto.output("put", queue, "hello").decode()
    assert said.startswith("put message ")
    assert said.endswith(f" into {queue}\n")
    assert telesto.output("get", queue) == b"hello\n"


def test_nothing_there_has_an_exit_code_of_its_own(telesto: CommandLine, queue: str) -> None:
    result = telesto.run("get", queue)
    assert (result.returncode, result.stdout, result.stderr) == (4, b"", b"")


def test_get_takes_one_unless_told_otherwise(telesto: CommandLine, queue: str, put: Put) -> None:
    put(b"1", b"2", b"3", b"4")
    assert telesto.output("get", queue) == b"1\n"
    assert telesto.output("get", queue, "--count", "2") == b"2\n3\n"
    assert telesto.output("get", queue, "--count", "2", "--wait", "0.1") == b"4\n"
    assert telesto.run("get", queue, "--count", "2").returncode == 4


def test_a_response_that_comes_too_late_is_not_stored(telesto: CommandLine, queue: str) -> None:
    telesto.output("put", queue, "question", "--correlation-id", "7", "--expires", "60")
    request = json.loads(telesto.output("get", queue, "--json"))
    assert 0 < request["expires_in"] <= 60
    answer = ["put", queue, "answer", "--receiver", str(request["sender_id"]), "--correlation-id", "7"]
    said = telesto.output(*answer, "--expires", "0").decode()
    assert said == f"put nothing into {queue}: the message has expired already\n"
    assert json.loads(telesto.output("queue", "show", queue, "--json"))["depth"] == 0
    assert telesto.output(*answer, "--expires", str(request["expires_in"])).startswith(b"put message ")
    assert json.loads(telesto.output("queue", "show", queue, "--json"))["depth"] == 1


def test_bodies_are_bytes(telesto: CommandLine, queue: str, tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(BINARY)
    telesto.output("put", queue, "--file", "blob")
    telesto.output("put", queue, "-", stdin=BINARY)
    telesto.output("put", queue, "")
    assert telesto.output("get", queue, "--count", "3") == BINARY + b"\n" + BINARY + b"\n\n"


def test_argument_that_is_not_text_is_taken_as_bytes(telesto: CommandLine, queue: str) -> None:
    telesto.output("put", queue, os.fsdecode(b"\xff\xfe"))
    assert telesto.output("get", queue) == b"\xff\xfe\n"


def test_lines_lose_their_newline_and_nothing_else(telesto: CommandLine, queue: str) -> None:
    lines = [b"plain", b"", b"carriage return\r", b"\x00\xff", b"no newline at the end"]
    telesto.output("put", queue, "--lines", "-", stdin=b"\n".join(lines))
    taken = telesto.output("get", queue, "--count", "9")
    assert taken == b"".join(line + b"\n" for line in lines)


def test_empty_file_of_lines_puts_nothing(telesto: CommandLine, queue: str) -> None:
    assert telesto.objects("put", queue, "--lines", "-")[0]["messages"] == 0
    assert telesto.run("get", queue).returncode == 4


def test_many_lines_keep_their_order(telesto: CommandLine, queue: str, tmp_path: Path) -> None:
    text = b"".join(b"line %d\n" % number for number in range(10_000))
    (tmp_path / "lines").write_bytes(text)
    figures = telesto.objects("put", queue, "--lines", "lines")[0]
    assert (figures["messages"], figures["bytes"]) == (10_000, len(text) - 10_000)
    assert telesto.output("get", queue, "--count", "20000") == text


@pytest.mark.parametrize("options", [(), ("--ids",)])
def test_lines_are_put_when_the_input_pauses(
    telesto: CommandLine, queue: str, depth: Callable[[], int], options: tuple[str, ...]
) -> None:
    """What killing it loses was not whole yet, or has only just come."""
    arguments = ("put", queue, "--lines", "-", *options)
    with telesto.started(*arguments, stdin=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        for count in (1, 3):
            process.stdin.write(b"a line\n" * (count - depth()) + b"half of ")
            wait_until(lambda count=count: depth() == count)
        process.kill()
        process.stdin.close()
    taken = telesto.output("get", queue, "--count", "9")
    assert taken == b"a line\nhalf of a line\na line\n"


def test_a_line_comes_in_pieces(telesto: CommandLine, queue: str, depth: Callable[[], int]) -> None:
    with telesto.started("put", queue, "--lines", "-", stdin=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        process.stdin.write(b"first\nsec")
        wait_until(lambda: depth() == 1)
        process.stdin.write(b"ond\n\nthird")
        process.stdin.close()
        assert process.wait(TIMEOUT_S) == 0
    assert telesto.output("get", queue, "--count", "9") == b"first\nsecond\n\nthird\n"


def test_the_lines_before_one_that_is_too_long_are_put(telesto: CommandLine, queue: str) -> None:
    text = b"1\n2\n" + b"x" * (BODY_BYTES_MAX + 1) + b"\n3"
    said = telesto.error(2, "put", queue, "--lines", "-", stdin=text)
    assert "line 3 of standard input is longer than" in said
    assert "the 2 lines before it were put" in said
    assert telesto.output("get", queue, "--count", "9") == b"1\n2\n"


def test_the_id_of_each_line_is_printed(telesto: CommandLine, queue: str) -> None:
    text = b"one\ntwo\nthree\n"
    ids = telesto.output("put", queue, "--lines", "-", "--ids", stdin=text).decode().split()
    taken = telesto.output("get", queue, "--count", "3", "--json").splitlines()
    assert [str(json.loads(line)["message_id"]) for line in taken] == ids
    printed = telesto.output("put", queue, "--lines", "-", "--ids", "--json", stdin=text).splitlines()
    objects = [json.loads(line) for line in printed]
    taken = telesto.output("get", queue, "--count", "3", "--json").splitlines()
    assert [json.loads(line)["message_id"] for line in taken] == [each["message_id"] for each in objects]
    (single,) = telesto.objects("put", queue, "one")
    assert [set(each) for each in objects] == [set(single)] * 3
    assert telesto.output("put", queue, "two", "--ids").decode() == f"{int(str(single['message_id'])) + 1}\n"


def test_lines_that_were_put_before_one_that_is_refused_have_their_ids(telesto: CommandLine) -> None:
    telesto.output("queue", "create", "fills with ids", "--max-messages", "2")
    result = telesto.run("put", "fills with ids", "--lines", "-", "--ids", stdin=b"1\n2\n3\n4\n")
    assert result.returncode == 1
    assert b"line 3 was not put" in result.stderr
    taken = telesto.output("get", "fills with ids", "--count", "2", "--json").splitlines()
    assert [str(json.loads(line)["message_id"]) for line in taken] == result.stdout.decode().split()


def test_a_message_can_be_put_for_a_moment(telesto: CommandLine, queue: str) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    telesto.environment["TZ"] = "Asia/Kathmandu"
    local = later.astimezone(ZoneInfo("Asia/Kathmandu"))
    moments = [later.isoformat(), f"{later:%Y-%m-%dT%H:%M:%S.%f}Z", f"{local:%Y-%m-%d %H:%M:%S.%f}"]
    for moment in moments:
        message_id = telesto.output("put", queue, "x", "--at", moment, "--ids").decode().strip()
        due = datetime.fromisoformat(str(telesto.objects("message", "show", message_id)[-1]["due_at"]))
        assert abs(due - later) < timedelta(seconds=60), moment
    lines = ["put", queue, "--lines", "-", "--ids", "--at", moments[0]]
    message_id = telesto.output(*lines, stdin=b"x").decode().strip()
    assert telesto.objects("message", "show", message_id)[-1]["state"] == "delayed"
    telesto.output("put", queue, "at once", "--at", "2020-01-01")
    assert telesto.output("get", queue, "--count", "9") == b"at once\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--at", "tomorrow"), "'tomorrow' is not a moment; write 2026-12-24T18:00"),
        (("--at", "2026-13-01"), "is not a moment"),
        (("--at", "2026-12-24T18:00Z", "--delay", "5m"), "give either --at or --delay"),
    ],
)
def test_a_wrong_moment_is_told(
    telesto: CommandLine, queue: str, options: tuple[str, ...], said: str
) -> None:
    assert said in telesto.error(2, "put", queue, "x", *options)


def test_queue_that_fills_up_stops_the_lines(telesto: CommandLine) -> None:
    telesto.output("queue", "create", "fills", "--max-messages", "3")
    said = telesto.error(1, "put", "fills", "--lines", "-", stdin=b"1\n2\n3\n4\n5\n")
    assert "line 4 was not put into fills" in said
    assert "QUEUE_FULL" in said
    assert "3 lines before it were put" in said
    assert telesto.output("get", "fills", "--count", "9") == b"1\n2\n3\n"


def test_priority_and_time(telesto: CommandLine, queue: str) -> None:
    for body, priority in (("low", "1"), ("high", "9"), ("middle", "5"), ("low", "1"), ("high", "9")):
        telesto.output("put", queue, body, "--priority", priority)
    assert telesto.output("get", queue) == b"high\n"
    assert telesto.output("get", queue, "--by-time", "--count", "2") == b"low\nmiddle\n"
    assert telesto.output("get", queue, "--count", "2") == b"high\nlow\n"


def test_json_has_all_fields(telesto: CommandLine, queue: str) -> None:
    put = telesto.objects("put", queue, "für", "--priority", "7", "--correlation-id", "-12")[0]
    telesto.output("put", queue, "-", stdin=b"\xff")
    text, binary = telesto.objects("get", queue, "--count", "2")
    assert text.pop("time_of_arrival", "").startswith("20")  # type: ignore[attr-defined]
    assert isinstance(text.pop("sender_id"), int)
    assert text == {
        "message_id": put["message_id"],
        "queue_id": put["queue_id"],
        "receiver_id": None,
        "correlation_id": -12,
        "priority": 7,
        "attempt": 1,
        "redelivered": False,
        "body": "für",
    }
    assert binary["body_base64"] == "/w=="
    assert "body" not in binary


def test_receiver_and_sender(telesto: CommandLine, queue: str) -> None:
    telesto.output("put", queue, "from alice", "--client", "alice")
    alice = telesto.objects("browse", queue)[0]["sender_id"]
    telesto.output("put", queue, "for alice", "--client", "bob", "--receiver", str(alice), "--priority", "9")

    assert [message["body"] for message in telesto.objects("browse", queue)] == ["from alice"]
    assert telesto.output("get", queue, "--client", "alice") == b"for alice\n"
    assert telesto.run("get", queue, "--sender", "999999").returncode == 4
    assert telesto.output("get", queue, "--sender", str(alice)) == b"from alice\n"


def test_browse_takes_nothing(telesto: CommandLine, queue: str, put: Put, depth: Callable[[], int]) -> None:
    put(b"one", b"tab\there", b"three")
    rows = [
        line.split("\t") for line in telesto.output("browse", queue, "--limit", "2").decode().splitlines()
    ]
    assert [row[-1] for row in rows] == ["body", "one", "tab·here"]
    assert [message["attempt"] for message in telesto.objects("browse", queue)] == [0, 0, 0]
    assert depth() == 3


def test_waiting_get_ends_when_the_message_comes(telesto: CommandLine, queue: str, put: Put) -> None:
    with telesto.started("get", queue, "--wait", "30") as waiting:
        put(b"at last")
        assert waiting.stdout is not None
        assert waiting.stdout.read() == b"at last\n"
        assert waiting.wait(30) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to put"),
        (["body", "--lines", "-"], "more than one thing"),
        (["--file", "missing"], "cannot read 'missing': No such file"),
        (["--lines", "."], "cannot read '.': Is a directory"),
        (["x", "--priority", "11"], "--priority"),
        (["two", "boxes", "of", "nails"], "a message of several words goes in quotes"),
    ],
)
def test_wrong_usage_of_put(
    telesto: CommandLine, queue: str, depth: Callable[[], int], arguments: list[str], said: str
) -> None:
    assert said in telesto.error(2, "put", queue, *arguments)
    assert depth() == 0
