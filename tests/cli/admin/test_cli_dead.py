"""`telesto dead`: dead letters are listed, shown, sent back and deleted."""

import time

import pytest

from command_line import CommandLine

PATIENCE_S = 20


@pytest.fixture
def letters(telesto: CommandLine, queue: str) -> list[int]:
    """Three messages that have expired; their ids."""
    telesto.output("queue", "update", queue, "--bury-expired")
    for body in ("one", "two", "three"):
        telesto.output("put", queue, body, "--expires", "0.001")
    deadline = time.monotonic() + PATIENCE_S
    while len(found := telesto.objects("dead", "list", queue)) < 3:
        assert time.monotonic() < deadline
    return [letter["message_id"] for letter in found]


def test_dead_letters_are_listed_and_shown(telesto: CommandLine, queue: str, letters: list[int]) -> None:
    found = telesto.objects("dead", "list", queue)
    assert [(letter["body"], letter["reason"]) for letter in found] == [
        ("one", "expired"),
        ("two", "expired"),
        ("three", "expired"),
    ]
    assert len(telesto.output("dead", "list", queue, "--limit", "2").splitlines()) == 3
    assert b"expired" in telesto.output("dead", "list", queue)
    (shown,) = telesto.objects("dead", "show", queue, str(letters[1]))
    assert (shown["body"], shown["client_id"]) == ("two", None)
    assert b"last client id\tnone\n" in telesto.output("dead", "show", queue, str(letters[1]))
    assert "no dead letter" in telesto.error(1, "dead", "show", queue, "999")


def test_dead_letters_go_back(telesto: CommandLine, queue: str, letters: list[int]) -> None:
    said = telesto.output("dead", "redrive", queue, str(letters[1]), str(letters[2]))
    assert said == f"sent 2 dead letters back to {queue}\n".encode()
    assert telesto.output("get", queue, "--count", "5") == b"two\nthree\n"
    assert telesto.objects("dead", "redrive", queue, "--all")[0]["redriven"] == 1
    assert telesto.output("get", queue) == b"one\n"


def test_dead_letters_go_on_to_a_dead_letter_queue(
    telesto: CommandLine, queue: str, letters: list[int]
) -> None:
    telesto.output("queue", "create", "morgue")
    (changed,) = telesto.objects("queue", "update", queue, "--dead-letter-queue", "morgue")
    (morgue,) = telesto.objects("queue", "show", "morgue")
    assert changed["dead_letter_queue"] == "morgue"
    assert "dead_letter_queue\tmorgue" in telesto.output("queue", "show", queue).decode()
    found = telesto.objects("get", "morgue", "--count", "3", "--wait", str(PATIENCE_S))
    assert [(message["body"], message["origin"]["message_id"]) for message in found] == list(
        zip(("one", "two", "three"), letters, strict=True)
    )
    assert telesto.objects("dead", "list", queue) == []
    telesto.output("queue", "update", queue, "--dead-letter-queue", "none")
    assert "dead_letter_queue\tnone" in telesto.output("queue", "show", queue).decode()
    telesto.output("queue", "create", "second", "--dead-letter-queue", "morgue")
    telesto.output("queue", "delete", "morgue", "--yes")
    (second,) = telesto.objects("queue", "show", "second")
    assert second["dead_letter_queue"] == morgue["queue_id"]
    assert f"{morgue['queue_id']} (deleted)" in telesto.output("queue", "show", "second").decode()
    assert "morgue" in telesto.error(1, "queue", "create", "third", "--dead-letter-queue", "morgue")


def test_dead_letters_are_deleted(telesto: CommandLine, queue: str, letters: list[int]) -> None:
    said = telesto.output("dead", "delete", queue, str(letters[0]), "--yes")
    assert said == f"deleted 1 dead letter of {queue}\n".encode()
    assert telesto.objects("dead", "delete", queue, "--all", "--yes")[0]["deleted"] == 2
    assert telesto.objects("dead", "list", queue) == []


@pytest.mark.parametrize("command", [("redrive",), ("delete", "--yes")])
def test_dead_letters_that_there_are_not_are_told(
    telesto: CommandLine, queue: str, letters: list[int], command: tuple[str, ...]
) -> None:
    word, *options = command
    assert (
        telesto.error(1, "dead", word, queue, "99999", *options)
        == f"telesto: {queue} has no dead letter 99999\n"
    )
    one = str(letters[0])
    result = telesto.run("dead", word, queue, one, one, "99998", "99999", *options)
    assert result.returncode == 1
    assert b"1 dead letter " in result.stdout
    assert result.stderr.decode() == f"telesto: {queue} has no dead letters of 2 of the 3 ids\n"
    assert len(telesto.objects("dead", "list", queue)) == 2
    telesto.output("dead", word, queue, "--all", *options)
    assert b"0 dead letters" in telesto.output("dead", word, queue, "--all", *options)


@pytest.mark.parametrize("which", [[], ["1", "--all"]])
def test_which_letters_are_meant_has_to_be_said(telesto: CommandLine, queue: str, which: list[str]) -> None:
    assert "--all" in telesto.error(2, "dead", "redrive", queue, *which)


def test_a_delayed_message_cannot_be_read_yet(telesto: CommandLine, queue: str) -> None:
    telesto.output("put", queue, "later", "--delay", "3600")
    assert telesto.run("get", queue).returncode == 4
    (shown,) = telesto.objects("queue", "show", queue)
    assert [
        shown[name] for name in ("depth", "ready", "delayed", "backing_off", "keyed", "leased", "dead")
    ] == [*(1, 0, 1, 0, 0, 0, 0)]
    assert shown["exact"]
    assert shown["oldest_age"] >= 0
    text = telesto.output("queue", "show", queue).decode()
    assert "\ndelayed\t1\n" in text
    assert "\nready\t0\n" in text


def test_settings_of_what_waits_and_dies(telesto: CommandLine) -> None:
    telesto.output(
        "queue",
        "create",
        "patient",
        "--backoff",
        "250ms",
        "--backoff-max",
        "5",
        "--expires",
        "1m",
    )
    (shown,) = telesto.objects("queue", "show", "patient")
    assert [shown[name] for name in ("backoff", "backoff_max", "expires", "bury_expired")] == [
        0.25,
        5.0,
        60.0,
        False,
    ]
    (changed,) = telesto.objects(
        "queue", "update", "patient", "--backoff", "0", "--expires", "none", "--bury-expired"
    )
    assert [changed[name] for name in ("backoff", "expires", "bury_expired")] == [0.0, None, True]
    assert "bury_expired\tyes" in telesto.output("queue", "show", "patient").decode()
    for wrong in ("0", "never", "-1"):
        assert "--expires" in telesto.error(2, "queue", "update", "patient", "--expires", wrong)
