"""What is said while there is no connection, and what to do about it."""

import http.server
import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from command_line import TIMEOUT_S, CommandLine
from telesto.cli.common.connection_notices import NOTICE_AFTER_S, ConnectionNotices
from telesto.cli.common.service_errors import explain
from telesto.client import DatabaseUnavailableError, LoginsPausedError, NotConnectedError

URL = "telesto://127.0.0.1:7001"


@contextmanager
def _serving(telesto: CommandLine, database_url: str, port: str) -> Iterator[str]:
    """A service at a port, stopped at the end; its URL."""
    arguments = ("serve", "--database-url", database_url, "--port", port, "--json")
    with telesto.started(*arguments, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0


def test_each_absence_is_told_once_and_its_end_too() -> None:
    said: list[str] = []
    notices = ConnectionNotices(URL, said.append)
    notices.look(False, 10.0)
    notices.look(False, 9.99 + NOTICE_AFTER_S)
    assert said == []
    for second in range(3):
        notices.look(False, 10.0 + NOTICE_AFTER_S + second)
    assert len(said) == 1
    assert "no connection to telesto://127.0.0.1:7001" in said[0]
    for _ in range(2):
        notices.look(True, 20.0)
    assert said[1:] == ["connected to telesto://127.0.0.1:7001"]
    notices.look(False, 30.0)
    notices.look(False, 30.0 + NOTICE_AFTER_S)
    assert len(said) == 3


def test_paused_logins_are_told_at_once_and_not_as_a_service_that_is_away() -> None:
    said: list[str] = []
    notices = ConnectionNotices(URL, said.append)
    for second in range(10):
        notices.look(False, float(second), LoginsPausedError("logins are paused for 12 s: why"))
    assert said == [
        "logins are paused for 12 s: why. This command tries again after that",
    ]


def test_short_absences_are_not_told() -> None:
    said: list[str] = []
    notices = ConnectionNotices(URL, said.append)
    for second in range(10):
        notices.look(second % 2 == 1, second * (NOTICE_AFTER_S - 0.1))
    assert said == []


@pytest.mark.parametrize("named", [(), ("--client", "carl")])
def test_following_says_that_the_service_is_away_and_back(
    bare_telesto: CommandLine, database_url: str, named: tuple[str, ...]
) -> None:
    with _serving(bare_telesto, database_url, "0") as url:
        port = str(urlsplit(url).port)
        telesto = CommandLine(bare_telesto.home, url)
        telesto.output("queue", "create", "orders")
        telesto.output("put", "orders", "before")
        following = telesto.started("get", "orders", "--follow", *named)
        process = following.__enter__()
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"before\n"
    try:
        assert f"no connection to {url}" in process.stderr.readline().decode()
        with _serving(bare_telesto, database_url, port):
            assert process.stderr.readline().decode() == f"telesto: connected to {url}\n"
            telesto.output("put", "orders", "after")
            assert process.stdout.readline() == b"after\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(TIMEOUT_S) == 130
    finally:
        following.__exit__(None, None, None)


@pytest.mark.parametrize(
    "command", [("put", "orders", "x"), ("put", "orders", "x", "--client", "c"), ("ping",)]
)
def test_a_listener_that_never_answers_is_told_of(
    bare_telesto: CommandLine, command: tuple[str, ...]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"telesto://127.0.0.1:{silent.getsockname()[1]}"
        error = bare_telesto.error(3, *command, "--url", url)
    assert f"{urlsplit(url).netloc} accepts connections, but has sent no answer" in error


def test_a_web_server_is_told_of(bare_telesto: CommandLine) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            error = bare_telesto.error(3, "ping", "--url", f"telesto://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()
    assert "speaks HTTP, not Telesto" in error


@pytest.mark.parametrize(
    ("url", "code"), [("telesto://127.0.0.1:1", 3), ("127.0.0.1:7001", 2), ("telesto://a:seven", 2)]
)
def test_where_the_address_comes_from_is_said(bare_telesto: CommandLine, url: str, code: int) -> None:
    bare_telesto.environment["TELESTO_URL"] = url
    for command in (("ping",), ("put", "orders", "x"), ("topic", "list", "--client", "c")):
        assert bare_telesto.error(code, *command).endswith("(the address is set by --url or TELESTO_URL)\n")


def test_a_service_without_its_database_is_no_matter_of_the_address() -> None:
    error = NotConnectedError("the database cannot be reached", address="127.0.0.1:7001")
    assert "TELESTO_URL" in explain(error).message
    error.__cause__ = DatabaseUnavailableError()
    assert "TELESTO_URL" not in explain(error).message


def test_other_refusals_do_not_speak_of_the_address(telesto: CommandLine, queue: str) -> None:
    for arguments in (("queue", "create", queue), ("topic", "unsubscribe", "t", "--client", "c")):
        assert "TELESTO_URL" not in telesto.error(1, *arguments)
