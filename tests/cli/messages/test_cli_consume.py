"""`telesto consume`: printing and running commands, and what is left when it ends."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import TIMEOUT_S, CommandLine
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.client import NewMessage, TelestoClient

Put = Callable[..., None]
Depth = Callable[[], int]

#: Says that it runs, and waits until it is told to go on or is ended.
WAIT = "echo begun; exec timeout 120 head -n 1 %s > /dev/null"


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A pipe on which a command waits until somebody writes to it."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


@pytest.fixture
def quick(client: TelestoClient, queue: str) -> str:
    """A queue where what failed comes again at once."""
    client.queue(client.get_queue_by_name(queue).queue_id).update(backoff=0)
    return queue


def _line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def _said(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    return process.stderr.read().decode()


# ---------------------------------------------------------------------------------- printing
def test_it_prints_what_there_is_and_ends_when_nothing_comes(
    telesto: CommandLine, queue: str, put: Put, depth: Depth
) -> None:
    put(b"one", b"two", b"", b"\xff")
    assert telesto.output("consume", queue, "--wait", "3") == b"one\ntwo\n\n\xff\n"
    assert depth() == 0
    assert telesto.run("consume", queue, "--wait", "0.1").returncode == 4


def test_a_count_bounds_it(telesto: CommandLine, queue: str, put: Put, depth: Depth) -> None:
    put(*(b"%d" % number for number in range(10)))
    assert telesto.output("consume", queue, "--count", "4") == b"0\n1\n2\n3\n"
    assert depth() == 6
    assert telesto.output("consume", queue, "--count", "6", "--credit", "1") == b"4\n5\n6\n7\n8\n9\n"


def test_json(telesto: CommandLine, client: TelestoClient, queue: str) -> None:
    queue_id = client.get_queue_by_name(queue).queue_id
    message_id = client.put_message(queue_id, b"text", partition_key="key")
    client.put_message(queue_id, b"other")
    lines = telesto.output("consume", queue, "--count", "2", "--json").splitlines()
    (keyed,) = (found for line in lines if "partition_key" in (found := json.loads(line)))
    assert (keyed["message_id"], keyed["partition_key"], keyed["body"]) == (message_id, "key", "text")
    assert (keyed["attempt"], keyed["redelivered"]) == (1, False)


def test_it_goes_on_until_ctrl_c(telesto: CommandLine, queue: str, put: Put, depth: Depth) -> None:
    with telesto.started("consume", queue) as process:
        for body in (b"first", b"second"):
            put(body)
            assert _line(process) == body + b"\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
        assert _said(process) == ""
    assert telesto.run("get", queue).returncode == 4
    assert depth() == 0


def test_what_was_not_written_goes_back(telesto: CommandLine, queue: str, put: Put) -> None:
    count, line = 500, b"x" * 1000
    put(*(b"%d %s" % (number, line) for number in range(count)))
    reading, writing = os.pipe()
    with telesto.started("consume", queue, stdout=writing) as process, os.fdopen(reading, "rb") as output:
        os.close(writing)
        seen = [int(output.readline().split()[0]) for _ in range(3)]
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 143
        whole = output.read().split(b"\n")[:-1]
    seen += [int(text.split()[0]) for text in whole]
    rest = telesto.output("get", queue, "--count", str(count), "--json").splitlines()
    left = [json.loads(text) for text in rest]
    assert seen + [int(message["body"].split()[0]) for message in left] == list(range(count))
    assert {message["attempt"] for message in left} == {1}


def test_a_reader_that_goes_away_ends_it(telesto: CommandLine, queue: str, put: Put) -> None:
    put(b"one", b"two")
    with telesto.started("consume", queue) as process:
        assert _line(process) == b"one\n"
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(TIMEOUT_S) == 141
        assert _said(process) == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--concurrency", "2"), "--exec COMMAND"),
        (("--exec", " "), "empty"),
        (("--exec", "cat", "--json"), "--json and --exec exclude each other"),
        (("--count", "0"), "--count"),
        (("--wait", "0"), "--wait"),
        (("--credit", "0"), "--credit"),
    ],
)
def test_what_cannot_be_asked_for(telesto: CommandLine, arguments: tuple[str, ...], said: str) -> None:
    assert said in telesto.error(2, "consume", "queue", *arguments)


def test_a_queue_that_is_not_there(telesto: CommandLine) -> None:
    assert "create it with: telesto queue create nowhere" in telesto.error(1, "consume", "nowhere")


# ---------------------------------------------------------------------------------- commands
def test_a_command_gets_the_body_and_the_names(
    telesto: CommandLine, client: TelestoClient, queue: str, depth: Depth
) -> None:
    queue_id = client.get_queue_by_name(queue).queue_id
    message_id = client.put_message(queue_id, b"the body", partition_key="a key")
    show = 'printf "%s/%s/%s/" "$TELESTO_MESSAGE_ID" "$TELESTO_PARTITION_KEY" "$TELESTO_ATTEMPT"; cat'
    shown = telesto.output("consume", queue, "--count", "1", "--exec", show)
    assert shown == b"%d/a key/1/the body" % message_id
    client.put_message(queue_id, b"no key")
    assert telesto.output(
        "consume", queue, "-n", "1", "--exec", "env | grep -c TELESTO_PARTITION_KEY; true"
    ) == (b"0\n")
    assert depth() == 0


def test_a_command_that_fails_gives_the_message_back(
    telesto: CommandLine, quick: str, put: Put, depth: Depth
) -> None:
    put(b"hard")
    result = telesto.run(
        "consume", quick, "--count", "3", "--exec", 'echo "$TELESTO_ATTEMPT"; [ "$TELESTO_ATTEMPT" = 3 ]'
    )
    assert result.returncode == ExitCode.COMMAND_FAILED
    assert result.stdout == b"1\n2\n3\n"
    assert result.stderr.count(b"failed with exit status 1 on message") == 2
    assert telesto.run("consume", quick, "--wait", "0.1").returncode == 4
    assert depth() == 0


def test_commands_that_fail_for_one_message_after_the_other_end_it(
    telesto: CommandLine, quick: str, put: Put, depth: Depth
) -> None:
    telesto.output("queue", "update", quick, "--fail-limit", "3")
    put(b"one", b"two", b"three", b"four")
    result = telesto.run("consume", quick, "--exec", "false")
    assert result.returncode == ExitCode.REFUSED
    said = result.stderr.decode().splitlines()
    assert "failed 3 times in a row" in said[-1]
    assert all(line.startswith("telesto: the command failed") for line in said[:-1])
    assert depth() == 4


def test_a_command_that_is_not_there_ends_it_and_harms_nobody(
    telesto: CommandLine, quick: str, put: Put
) -> None:
    put(b"one", b"two")
    result = telesto.run("consume", quick, "--exec", "no-such-command-here --x")
    assert result.returncode == ExitCode.COMMAND_NOT_RUN
    assert "the command 'no-such-command-here --x' was not found" in result.stderr.decode().splitlines()[-1]
    left = [json.loads(line) for line in telesto.output("get", quick, "-n", "9", "--json").splitlines()]
    assert [(message["body"], message["attempt"]) for message in left] == [("one", 1), ("two", 1)]


def test_commands_run_beside_each_other_but_of_a_partition_one(
    telesto: CommandLine, client: TelestoClient, queue: str, tmp_path: Path
) -> None:
    """Each of two partitions waits until a command of the other one runs, and notes its own order."""
    for key in "ab":
        os.mkfifo(tmp_path / key)
    queue_id = client.get_queue_by_name(queue).queue_id
    client.queue(queue_id).put_many([NewMessage(b"%d" % i, partition_key="ab"[i % 2]) for i in range(8)])
    meet = (
        "k=$TELESTO_PARTITION_KEY; mkdir running-$k || exit 1; "
        "if [ $k = a ]; then echo > a; read x < b; else read x < a; echo > b; fi; "
        "cat >> order-$k; rmdir running-$k"
    )
    telesto.output("consume", queue, "--count", "8", "--concurrency", "4", "--exec", meet)
    assert (tmp_path / "order-a").read_text() == "0246"
    assert (tmp_path / "order-b").read_text() == "1357"


@pytest.mark.parametrize("concurrency", [1, 5])
def test_it_begins_no_more_than_was_asked_for(
    telesto: CommandLine, queue: str, put: Put, depth: Depth, concurrency: int
) -> None:
    put(*(b"%d\n" % number for number in range(9)))
    arguments = ("--count", "3", "--concurrency", str(concurrency), "--exec", "cat")
    shown = telesto.output("consume", queue, *arguments)
    assert len(set(shown.splitlines())) == 3
    assert depth() == 6


def test_ctrl_c_waits_for_what_runs_and_gives_back_the_rest(
    telesto: CommandLine, queue: str, put: Put, gate: Path
) -> None:
    put(b"one", b"two", b"three")
    with telesto.started("consume", queue, "--exec", WAIT % gate) as process:
        assert _line(process) == b"begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.readline() == (
            b"telesto: waiting for the commands that still run; a second Ctrl-C ends them\n"
        )
        with gate.open("w") as opened:
            opened.write("go on\n")
        assert process.wait(TIMEOUT_S) == 130
    left = [json.loads(line) for line in telesto.output("get", queue, "-n", "9", "--json").splitlines()]
    assert [(message["body"], message["attempt"]) for message in left] == [("two", 1), ("three", 1)]


def test_a_second_ctrl_c_ends_what_runs_and_gives_it_back(
    telesto: CommandLine, queue: str, put: Put, gate: Path
) -> None:
    put(b"one", b"two")
    with telesto.started("consume", queue, "--exec", WAIT % gate) as process:
        assert _line(process) == b"begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert b"waiting for" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
    left = [json.loads(line) for line in telesto.output("get", queue, "-n", "9", "--json").splitlines()]
    assert [(message["body"], message["attempt"]) for message in left] == [("one", 1), ("two", 1)]


def test_killing_it_gives_back_what_it_had(telesto: CommandLine, quick: str, put: Put, gate: Path) -> None:
    put(b"one")
    with telesto.started("consume", quick, "--exec", WAIT % gate) as process:
        assert _line(process) == b"begun\n"
        process.kill()
        process.wait(TIMEOUT_S)
        with gate.open("w") as opened:  # the command outlives it
            opened.write("go on\n")
    assert telesto.output("consume", quick, "--count", "1") == b"one\n"
