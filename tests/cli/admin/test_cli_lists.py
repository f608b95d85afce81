"""`telesto client`, `consumer`, `middleware`, `topic show`, and what shells complete."""

import subprocess
import sys

import pytest

from command_line import TIMEOUT_S, CommandLine
from faults.waiting import wait_until
from started import STARTED
from telesto.client import ClientMode, TelestoClient


def test_clients_are_listed_shown_and_deleted(telesto: CommandLine) -> None:
    telesto.output("topic", "subscribe", "news", "--client", "ada")
    telesto.output("topic", "subscribe", "news", "--client", "a*a")
    assert [row["name"] for row in telesto.objects("client", "list", "--like", "ad?")] == ["ada"]
    header, row = telesto.output("client", "list", "--like", "ada").decode().splitlines()
    columns = dict(zip(header.split("\t"), row.split("\t"), strict=True))
    assert (columns["name"], columns["temporary"], columns["topics"]) == ("ada", "no", "1")
    (shown,) = telesto.objects("client", "show", "a*a")
    assert (shown["name"], shown["mode"], shown["subscriptions"]) == ("a*a", "full", 1)

    assert "add --yes" in telesto.error(2, "client", "delete", "ada")
    assert telesto.output("client", "delete", "ada", "--yes") == b"deleted the client ada\n"
    for command in (("client", "show", "ada"), ("client", "delete", "ada", "--yes")):
        assert "there is no client 'ada'" in telesto.error(1, *command)
    assert telesto.objects("client", "show", "a*a")
    # The name can be used again, by a client that subscribes to nothing.
    telesto.output("topic", "subscribe", "news", "--client", "ada")


def test_a_client_that_only_reads_is_not_deleted(telesto: CommandLine) -> None:
    with TelestoClient(telesto.url, name="reads", mode=ClientMode.READ_ONLY) as reader:
        reader.connect()
        number = reader.client_id
    assert f"SELECT telesto.delete_client({number})" in telesto.error(1, "client", "delete", "reads", "--yes")
    (shown,) = telesto.objects("client", "show", "reads")
    assert (shown["client_id"], shown["mode"]) == (number, "read_only")


def test_consumers_and_middlewares_are_listed(telesto: CommandLine, queue: str) -> None:
    assert telesto.objects("consumer", "list", queue) == []
    with telesto.started("consume", queue, "--client", "worker") as process:
        wait_until(lambda: len(telesto.objects("consumer", "list", queue)) == 1, TIMEOUT_S)
        (row,) = telesto.objects("consumer", "list", queue)
        assert (row["queue"], row["client"], row["leases"], row["slow"]) == (queue, "worker", 0, False)
        (middleware,) = telesto.objects("middleware", "list")
        assert middleware["middleware_id"] == row["middleware_id"]
        assert middleware["address"] in str(telesto.url)
        process.terminate()
        process.wait(TIMEOUT_S)
    wait_until(lambda: telesto.objects("consumer", "list", queue) == [], TIMEOUT_S)
    assert "there is no queue" in telesto.error(1, "consumer", "list", "no-such")


def test_a_topic_is_shown(telesto: CommandLine) -> None:
    telesto.output("topic", "subscribe", "weather", "--client", "eve")
    telesto.output("topic", "put", "weather", "rain")
    (shown,) = telesto.objects("topic", "show", "weather")
    assert (shown["topic"], shown["last_number"], shown["subscribers"], shown["depth"]) == (
        "weather",
        1,
        1,
        1,
    )
    assert b"messages put\t1\n" in telesto.output("topic", "show", "weather")
    assert "there is no topic 'none'" in telesto.error(1, "topic", "show", "none")


def test_queues_are_listed_by_pattern(telesto: CommandLine, client: TelestoClient) -> None:
    for number in range(3):
        client.declare_queue(f"like-{number}")
    client.queue("like-1").put(b"x")
    found = telesto.objects("queue", "list", "--like", "like-*", "--limit", "2")
    assert [(row["name"], row["depth"]) for row in found] == [("like-0", 0), ("like-1", 1)]


# `telesto` that gives the service all the time that it takes on a busy machine.
PATIENT = """
from telesto.cli.common import completion
from telesto.cli.main import run

completion.SECONDS_MAX = 100.0
run()
"""


def _completed(telesto: CommandLine, shell: str, line: str) -> list[str]:
    """What a shell gets for a line that is being typed."""
    environment = {**telesto.environment, "_TELESTO_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        words = line.split(" ")
        environment |= {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    else:
        environment["_TYPER_COMPLETE_ARGS"] = line
        if shell == "fish":
            environment["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    result = subprocess.run(
        [*STARTED, sys.executable, "-c", PATIENT],
        env=environment,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert result.stderr == b""
    return result.stdout.decode().split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_names_are_completed(telesto: CommandLine, client: TelestoClient, shell: str) -> None:
    client.declare_queue("complete-me")
    for hostile in (
        "comp;reboot",
        "comp$(reboot)",
        "comp`reboot`",
        "comp|reboot",
        "comp two",
        "comp'",
        'comp"',
        "comp\\",
    ):
        client.declare_queue(hostile)
    telesto.output("topic", "subscribe", f"complete-topic-{shell}", "--client", "complete-client")
    for line, name in (
        ("telesto get comp", "complete-me"),
        ("telesto queue show comp", "complete-me"),
        ("telesto topic put comp", "complete-topic"),
        ("telesto client delete comp", "complete-client"),
        ("telesto get orders --client comp", "complete-client"),
    ):
        assert name in "\n".join(_completed(telesto, shell, line)), line
    # Shells insert names without quotes; that of a queue may be anyone's.
    for line in ("telesto get comp", "telesto get comp;", "telesto get comp*"):
        found = "\n".join(_completed(telesto, shell, line))
        assert "reboot" not in found
        assert "two" not in found
    assert "complete-me" not in "\n".join(_completed(telesto, shell, "telesto get nothing-like-it"))
    assert "consume" in "\n".join(_completed(telesto, shell, "telesto cons"))


@pytest.mark.parametrize("url", ["telesto://127.0.0.1:1", "no url"])
def test_a_service_that_is_away_completes_nothing(bare_telesto: CommandLine, url: str) -> None:
    bare_telesto.environment["TELESTO_URL"] = url
    assert _completed(bare_telesto, "bash", "telesto get comp") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_the_shell_is_shown(bare_telesto: CommandLine, shell: str) -> None:
    # Else the shell is found by the process that started this one, which is no shell here.
    bare_telesto.environment["_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"] = "1"
    assert f"_TELESTO_COMPLETE=complete_{shell}" in bare_telesto.output("--show-completion", shell).decode()
