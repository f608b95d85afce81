import re
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import pytest

from command_line import CommandLine
from telesto.protocol.queue_settings import QUEUE_SETTINGS, QueueSetting


def test_creates_lists_shows_and_deletes(telesto: CommandLine) -> None:
    said = telesto.output("queue", "create", "parcels").decode()
    assert said.startswith("created the queue parcels (id ")
    telesto.output("put", "parcels", "one")

    listed = {entry["name"]: entry for entry in telesto.objects("queue", "list")}
    assert listed["parcels"]["depth"] == 1
    assert f"{listed['parcels']['queue_id']}\t1\tparcels\n" in telesto.output("queue", "list").decode()

    shown = telesto.output("queue", "show", "parcels").decode()
    assert "waiting\t1\n" in shown
    assert "max_messages\tnone\n" in shown
    assert "\nlate_after\t10 s (a third of lease)\n" in shown
    assert re.search(r"\noldest has waited\t[0-9.]+ s\n", shown)
    telesto.output("queue", "update", "parcels", "--late-after", "0.07")
    assert b"\nlate_after\t0.07 s\n" in telesto.output("queue", "show", "parcels")

    assert telesto.output("queue", "delete", "parcels", "--yes") == b"deleted the queue parcels\n"
    assert "parcels" not in telesto.output("queue", "list").decode()


def test_name_that_is_taken_is_refused(telesto: CommandLine, queue: str) -> None:
    said = telesto.error(1, "queue", "create", queue)
    assert "exists already" in said


def test_queue_that_does_not_exist_is_named_with_advice(telesto: CommandLine) -> None:
    for command in (["queue", "show"], ["queue", "delete", "--yes"], ["queue", "purge", "--yes"], ["get"]):
        said = telesto.error(1, *command, "nowhere")
        assert "no queue 'nowhere'" in said
        assert "telesto queue create nowhere" in said
    assert "telesto queue create 'no where'\n" in telesto.error(1, "get", "no where")


@pytest.mark.parametrize("name", ["two\nlines", "a\u202eb", "zero\u200bwidth", "byte\udcff"])
def test_a_name_with_invisible_characters_is_refused(telesto: CommandLine, name: str) -> None:
    for command in (("queue", "create", name), ("put", name, "x"), ("topic", "put", name, "x")):
        assert "no invisible characters, as U+" in telesto.error(2, *command)
    assert "no invisible characters, as U+" in telesto.error(2, "put", "q", "x", "--client", name)


def test_deleting_asks_and_needs_a_terminal_for_that(
    telesto: CommandLine, queue: str, put: Callable[..., None], depth: Callable[[], int]
) -> None:
    put(b"kept")
    for command in ("delete", "purge"):
        said = telesto.error(2, "queue", command, queue, stdin=b"y\n")
        assert "--yes" in said
    assert depth() == 1


def test_purge_tells_how_many(
    telesto: CommandLine, queue: str, put: Callable[..., None], depth: Callable[[], int]
) -> None:
    put(b"a", b"b", b"c")
    assert telesto.output("queue", "purge", queue, "--yes") == f"removed 3 messages from {queue}\n".encode()
    assert depth() == 0


def test_bounded_queue_refuses_what_is_beyond(telesto: CommandLine) -> None:
    telesto.output("queue", "create", "small", "--max-messages", "2")
    assert telesto.objects("queue", "show", "small")[0]["max_messages"] == 2
    telesto.output("put", "small", "1")
    telesto.output("put", "small", "2")
    assert "QUEUE_FULL" in telesto.error(1, "put", "small", "3")


def test_settings_are_changed_and_shown(telesto: CommandLine, queue: str) -> None:
    assert (
        telesto.output("queue", "update", queue, "--max-messages", "7")
        == f"changed the queue {queue}\n".encode()
    )
    assert telesto.objects("queue", "show", queue)[0]["max_messages"] == 7
    assert "max_messages\t7\n" in telesto.output("queue", "show", queue).decode()
    (changed,) = telesto.objects("queue", "update", queue, "--max-messages", "none")
    assert (changed["name"], changed["max_messages"]) == (queue, None)
    assert "max_messages\tnone\n" in telesto.output("queue", "show", queue).decode()


def test_settings_that_cannot_be_are_refused(telesto: CommandLine, queue: str) -> None:
    assert "no setting" in telesto.error(2, "queue", "update", queue)
    for wrong in ("0", "-1", "many", "\u00b2"):
        assert "--max-messages" in telesto.error(2, "queue", "update", queue, "--max-messages", wrong)
    assert "9223372036854775808" in telesto.error(2, "queue", "update", queue, "--max-messages", str(2**63))
    assert "no queue 'nowhere'" in telesto.error(1, "queue", "update", "nowhere", "--max-messages", "1")


def test_settings_are_called_and_measured_alike_in_options_and_output(
    telesto: CommandLine, queue: str
) -> None:
    (shown,) = telesto.objects("queue", "show", queue)
    text = telesto.output("queue", "show", queue).decode()
    for name in ("dedup_window", "lease", "backoff", "backoff_max", "late_window"):
        option = "--" + name.replace("_", "-")
        for given, seconds, said in (("90s", 90.0, "90 s"), ("5m", 300.0, "5 min"), (" 2 h", 7200.0, "2 h")):
            (changed,) = telesto.objects("queue", "update", queue, option, given)
            assert changed[name] == seconds
            assert f"\n{name}\t{said}\n" in telesto.output("queue", "show", queue).decode()
        (changed,) = telesto.objects("queue", "update", queue, option, str(shown[name]))
        assert changed[name] == shown[name]
    for command in ("create", "update"):
        usage = telesto.output("queue", command, "--help").decode()
        for name in shown:
            if f"\n{name}\t" in text and name not in ("ready", "delayed", "leased", "bury_expired"):
                assert "--" + name.replace("_", "-")[:12] in usage, name


def option(setting: QueueSetting, value: Any) -> list[str]:
    name = "--" + setting.client_name.replace("_", "-")
    if setting.type is bool:
        return [name if value else "--" + setting.off.replace("_", "-")]
    return [name, "none" if value is None else str(value)]


def test_every_setting_of_the_specification_can_be_given_changed_and_taken_away(
    telesto: CommandLine, queue: str
) -> None:
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    settings = {setting.client_name: setting for setting in QUEUE_SETTINGS.values()}
    for name, setting in settings.items():
        if setting.type is bool:
            first[name], second[name] = not setting.default, setting.default
        elif issubclass(setting.type, IntEnum):
            members = [member.name.lower() for member in setting.type]
            first[name], second[name] = members[0], members[-1]
        elif setting.unit == "queue":
            first[name], second[name] = queue, None
        elif setting.unit == "ms":
            first[name], second[name] = setting.least / 1000, None if setting.without else setting.most / 1000
        else:
            first[name], second[name] = setting.least, None if setting.without else setting.most
    for command, given in (("create", first), ("update", second)):
        options = [part for name, value in given.items() for part in option(settings[name], value)]
        telesto.output("queue", command, "all", *options)
        (shown,) = telesto.objects("queue", "show", "all")
        assert {name: shown[name] for name in given} == given


def test_a_value_out_of_the_range_is_refused_by_the_option(telesto: CommandLine, queue: str) -> None:
    for wrong in ("0.099", "99ms", "86400.001", "25h"):
        said = telesto.error(2, "queue", "update", queue, "--lease", wrong)
        assert "--lease" in said
        assert f"{wrong!r} is out of the range: 0.1 s to 1 d" in said
    for wrong in ("", "long", "5x", "1e3", "nan", "inf", "-1", "5 m 3"):
        said = telesto.error(2, "queue", "update", queue, f"--lease={wrong}")
        assert f"{wrong!r} is no duration: seconds, or such as 500ms, 30s, 5m, 2h, 7d" in said
    limit = QUEUE_SETTINGS["late_limit"]
    for wrong in (limit.least - 1, limit.most + 1):
        assert "--late-limit" in telesto.error(2, "queue", "update", queue, f"--late-limit={wrong}")


def test_a_queue_is_declared_any_number_of_times(telesto: CommandLine) -> None:
    for _ in range(2):
        said = telesto.output("queue", "declare", "parcels", "--lease", "2m").decode()
        assert re.fullmatch(r"the queue parcels is there \(id \d+\)\n", said)
    said = telesto.error(1, "queue", "declare", "parcels", "--lease", "3m", "--max-messages", "7")
    assert "queue 'parcels' has max_messages=None, not 7, lease=120.0, not 180.0" in said
    (declared,) = telesto.objects("queue", "declare", "parcels", "--lease", "3m", "--update")
    (shown,) = telesto.objects("queue", "show", "parcels")
    assert (shown["queue_id"], shown["lease"], shown["max_messages"]) == (declared["queue_id"], 180.0, None)
