"""Named clients: separate runs are one client, also when one of them is killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import TIMEOUT_S, CommandLine
from started import STARTED
from telesto.cli.common.named_clients import state_directory
from telesto.client import TelestoClient
from telesto.client.calls.state import StateChanges, StoredClient
from telesto.client.durable.state_directory import StateDirectory
from telesto.client.url import parse_url

Put = Callable[..., None]

# `telesto`, which kills itself before or after something.
KILLED = """
import os, signal, sys
from telesto.cli.main import run
from telesto.client import Queue, TelestoClient
from telesto.client.durable.durable_session import DurableSession

def before(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def after(action):
    def then_die(*arguments, **named):
        action(*arguments, **named)
        before()
    return then_die

point = sys.argv.pop(1)
if point == "before the put is sent":
    flush_ended = DurableSession.end_flush
    def end_flush(session, error=None):
        flush_ended(session, error)
        if session._wal._requests:
            before()
    DurableSession.end_flush = end_flush
elif point == "before the put returns":
    Queue.put_many = after(Queue.put_many)
elif point == "before it is confirmed":
    TelestoClient.confirm = before
elif point == "after it is confirmed":
    TelestoClient.confirm = after(TelestoClient.confirm)
run()
"""


def killed(telesto: CommandLine, point: str, *arguments: str) -> bytes:
    """Runs a command that is killed at a point; what it wrote."""
    result = subprocess.run(
        [*STARTED, sys.executable, "-c", KILLED, point, *arguments],
        stdout=subprocess.PIPE,
        env=telesto.environment,
        cwd=telesto.home,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert result.returncode == -signal.SIGKILL
    return result.stdout


def directory_of(telesto: CommandLine, name: str) -> Path:
    assert telesto.url is not None
    root = telesto.home / "state" / "telesto" / "states"
    return next(root.iterdir()) / name


def test_a_name_that_an_application_has_is_refused(telesto: CommandLine, queue: str) -> None:
    assert telesto.url is not None
    with TelestoClient(telesto.url, name="shop") as shop:
        shop.connect()
        said = telesto.error(5, "put", queue, "x", "--client", "shop")
        assert f"the client's name 'shop' is in use on this machine by process {os.getpid()};" in said
        assert 'existing="take_over"' in said
        shop.queue(queue).put(b"still the client")
    telesto.output("put", queue, "x", "--client", "shop")
    telesto.output("put", queue, "x", "--url", f"{telesto.url}/?name=shop&existing=take_over")


@pytest.mark.parametrize("point", ["before the put is sent", "before the put returns"])
def test_a_put_that_was_cut_off_is_there_once(
    telesto: CommandLine, client: TelestoClient, queue: str, point: str
) -> None:
    killed(telesto, point, "put", queue, "cut off", "--client", "putting")
    again = telesto.run("put", queue, "next", "--client", "putting")
    assert again.returncode == 0
    said = again.stderr.decode()
    assert "an earlier run was cut off; its message of 7 bytes for queue" in said
    assert "is there, as message" in said
    assert telesto.output("put", queue, "last", "--client", "putting").startswith(b"put message")
    queue_id = client.get_queue_by_name(queue).queue_id
    assert [message.text for message in client.read_messages(queue_id)] == ["cut off", "next", "last"]


def test_a_topic_takes_what_was_cut_off_once(telesto: CommandLine) -> None:
    telesto.output("topic", "subscribe", "cut", "--client", "subscribing")
    killed(telesto, "before the put is sent", "topic", "put", "cut", "off", "--client", "publishing")
    assert b"for cut is there, as message 1" in telesto.run("queue", "list", "--client", "publishing").stderr
    assert telesto.output("topic", "get", "cut", "-n", "9", "--client", "subscribing") == b"off\n"


def test_many_puts_that_were_cut_off_are_told_of_in_short(telesto: CommandLine, queue: str) -> None:
    lines = telesto.home / "lines"
    lines.write_text("".join(f"{number}\n" for number in range(200)))
    killed(telesto, "before the put is sent", "put", queue, "--lines", str(lines), "--client", "bulk")
    said = telesto.run("queue", "list", "--client", "bulk").stderr.decode().splitlines()
    assert len(said) == 11
    assert said[-1] == "telesto: and 190 more messages of that run"


def test_what_was_written_and_not_confirmed_comes_again(telesto: CommandLine, queue: str, put: Put) -> None:
    put(b"one", b"two")
    assert killed(telesto, "before it is confirmed", "get", queue, "--client", "getting") == b"one\n"
    [again] = telesto.objects("get", queue, "--client", "getting")
    assert (again["body"], again["redelivered"]) == ("one", True)
    [following] = telesto.objects("get", queue, "--client", "getting")
    assert (following["body"], following["redelivered"]) == ("two", False)


def test_what_was_confirmed_does_not(telesto: CommandLine, queue: str, put: Put) -> None:
    put(b"one", b"two")
    assert killed(telesto, "after it is confirmed", "get", queue, "--client", "getting") == b"one\n"
    [following] = telesto.objects("get", queue, "--client", "getting", "--count", "9")
    assert (following["body"], following["redelivered"]) == ("two", False)


def test_topics_go_on_where_the_last_run_ended(telesto: CommandLine) -> None:
    telesto.output("topic", "subscribe", "news", "--client", "reading")
    for body in ("1", "2", "3"):
        telesto.output("topic", "put", "news", body)
    get = ("topic", "get", "news", "--client", "reading")
    assert killed(telesto, "before it is confirmed", *get) == b"1\n"
    assert killed(telesto, "after it is confirmed", *get) == b"1\n"
    assert telesto.output(*get) == b"2\n"
    assert telesto.output(*get) == b"3\n"


def test_a_client_is_for_one_run_at_a_time(telesto: CommandLine, queue: str, put: Put) -> None:
    put(b"one")
    with telesto.started("get", queue, "--follow", "--client", "busy") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        said = telesto.error(5, "put", queue, "two", "--client", "busy")
        assert f"in use by process {process.pid}" in said
        process.terminate()
        assert process.wait(TIMEOUT_S) == 143
    assert telesto.output("put", queue, "two", "--client", "busy")


def test_the_place_can_be_chosen(telesto: CommandLine, queue: str) -> None:
    for given in ("--state-dir", "the environment"):
        place = telesto.home / given
        arguments = ("put", queue, "x", "--client", "placed")
        if given == "--state-dir":
            telesto.output("--state-dir", str(place), *arguments)
        else:
            telesto.environment["TELESTO_STATE_DIR"] = str(place)
            telesto.output(*arguments)
        assert [path.name for path in place.glob("*/placed/*.log")] == ["telesto-state.log"]
    assert not (telesto.home / "state" / "telesto" / "states").exists()


def test_the_url_may_say_it_all(telesto: CommandLine, queue: str) -> None:
    place = telesto.home / "of the url"
    url = f"{telesto.url}/?name=said&state_dir={place}"
    telesto.output("put", queue, "x", "--url", url)
    assert (place / "telesto-state.log").exists()


def test_a_state_that_cannot_be_written_ends_it_before_anything(telesto: CommandLine, queue: str) -> None:
    (telesto.home / "taken").touch()
    place = str(telesto.home / "taken")
    said = telesto.error(1, "--state-dir", place, "put", queue, "x", "--client", "nowhere")
    assert "cannot be used" in said
    assert "--state-dir DIR or TELESTO_STATE_DIR" in said
    assert telesto.objects("queue", "show", queue)[0]["depth"] == 0


def test_a_state_of_another_database_is_refused(telesto: CommandLine, queue: str) -> None:
    telesto.output("put", queue, "x", "--client", "moved")
    directory = directory_of(telesto, "moved")
    state = StateDirectory(directory)
    stored = state.stored.client
    assert stored is not None
    state.write(StateChanges(client=StoredClient(stored.token, 1, "moved", stored.client_id, "another")))
    state.close()
    said = telesto.error(1, "put", queue, "y", "--client", "moved")
    assert "another database" in said
    assert "begin anew" in said
    assert str(directory) in said
    assert telesto.objects("queue", "show", queue)[0]["depth"] == 1


@pytest.mark.parametrize("name", ["a/b", "..", ".", "n" * 255, "\N{SNOWMAN}" * 80, "a b", "A"])
def test_every_name_has_a_place_of_its_own(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TELESTO_STATE_DIR", str(tmp_path))
    service = parse_url("telesto://one:1,two:2")
    place = state_directory(service, name)
    StateDirectory(place).close()
    assert place.parent.parent == tmp_path
    assert place == state_directory(parse_url("telesto://two:2,one:1"), name)
    assert place != state_directory(service, name + "n")
    assert place != state_directory(parse_url("telesto://one:1"), name)
    assert json.dumps(str(place)).isascii()


def test_an_explicit_state_dir_wins_over_that_of_a_url(
    telesto: CommandLine, queue: str, tmp_path: Path
) -> None:
    """Which may be that of TELESTO_URL."""
    telesto.environment["TELESTO_URL"] = f"{telesto.url}/?state_dir={tmp_path / 'url'}"
    telesto.output("--state-dir", str(tmp_path / "option"), "put", queue, "x", "--client", "explicit")
    assert (tmp_path / "option").is_dir()
    assert not (tmp_path / "url").exists()
