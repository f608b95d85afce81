"""--retry-for and --try-timeout: how long a command goes on trying."""

import inspect
import json
import socket
import subprocess
from urllib.parse import urlsplit

import pytest

from command_line import TIMEOUT_S, CommandLine
from telesto.cli.common import patience
from telesto.cli.common.app import COMMANDS, build
from telesto.client import ClientOptions


def test_options_reach_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_given", {})
    seen: list[ClientOptions] = []

    def command(word: str, url: str = "") -> None:
        seen.append(patience.patient(ClientOptions(auto_confirm=False)))

    wrapped = patience.with_patience(command)
    assert list(inspect.signature(wrapped).parameters) == ["word", "url", "retry_for", "try_timeout"]
    wrapped(word="a", url="b", retry_for=60.0, try_timeout=7.0)
    wrapped(word="a", url="b", retry_for=None, try_timeout=None)
    patient, usual = seen
    assert (patient.call_timeout, patient.try_timeout, patient.connect_timeout) == (60.0, 7.0, 7.0)
    assert (patient.connect_tries, patient.max_tries, patient.auto_confirm) == (
        None,
        patience.TRIES_MAX,
        False,
    )
    assert usual == ClientOptions(auto_confirm=False, connect_tries=patience.CONNECT_TRIES)


def test_a_command_that_asks_no_service_has_no_patience() -> None:
    def command(word: str) -> None: ...

    assert patience.with_patience(command) is command


@pytest.mark.parametrize("words", ["ping", "put", "queue list", "topic get", "dead redrive", "message show"])
def test_each_command_with_an_address_has_the_options(bare_telesto: CommandLine, words: str) -> None:
    shown = bare_telesto.output(*words.split(), "--help").decode()
    assert "--retry-for" in shown
    assert "--try-timeout" in shown


@pytest.mark.parametrize("how", ["option", "variable"])
def test_a_command_waits_for_a_service_that_starts_later(
    bare_telesto: CommandLine, database_url: str, how: str
) -> None:
    with socket.socket() as placeholder:
        placeholder.bind(("127.0.0.1", 0))
        port = placeholder.getsockname()[1]
    url = f"telesto://127.0.0.1:{port}"
    options = ("--retry-for", "100s") if how == "option" else ()
    if how == "variable":
        bare_telesto.environment["TELESTO_RETRY_FOR"] = "100"
    with bare_telesto.started("ping", "--url", url, "--json", *options) as process:
        assert process.stderr is not None
        assert f"no connection to {url}" in process.stderr.readline().decode()
        serve = ("serve", "--database-url", database_url, "--port", str(port), "--json")
        with bare_telesto.started(*serve, stderr=subprocess.DEVNULL) as service:
            out, _ = process.communicate(timeout=TIMEOUT_S)
            assert (process.returncode, json.loads(out)["url"]) == (0, url)
            service.terminate()
            assert service.wait(TIMEOUT_S) == 0


def test_the_time_is_said_when_it_is_over(bare_telesto: CommandLine) -> None:
    with socket.socket() as placeholder:
        placeholder.bind(("127.0.0.1", 0))
        url = f"telesto://127.0.0.1:{placeholder.getsockname()[1]}"
        said = bare_telesto.error(3, "ping", "--url", url, "--retry-for", "300ms")
    assert urlsplit(url).netloc in said


def test_a_duration_that_is_none_is_refused(bare_telesto: CommandLine) -> None:
    assert "is no duration" in bare_telesto.error(2, "ping", "--retry-for", "soon")
    assert "out of the range" in bare_telesto.error(2, "ping", "--try-timeout", "0")


def test_all_commands_can_be_built() -> None:
    assert len(build([]).registered_commands) + len(build([]).registered_groups) == len(COMMANDS)
