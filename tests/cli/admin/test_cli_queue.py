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
    assert "\nlate_after_ms\t10000 (a third of lease_ms)\n" in shown
    assert re.search(r"\noldest has waited\t[0-9.]+ s\n", shown)
    telesto.output("queue", "update", "parcels", "--late-after-ms", "70")
    assert b"\nlate_after_ms\t70\n" in telesto.output("queue", "show", "parcels")

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
    for name in ("dedup_window_ms", "lease_ms", "backoff_ms", "backoff_max_ms", "late_window_ms"):
        option = "--" + name.replace("_", "-")
        (changed,) = telesto.objects("queue", "update", queue, option, str(shown[name] + 1))
        assert changed[name] == shown[name] + 1
        assert f"\n{name}\t{shown[name]}\n" in text
    for command in ("create", "update"):
        usage = telesto.output("queue", command, "--help").decode()
        for name in shown:
            if f"\n{name}\t" in text and name not in ("ready", "delayed", "leased", "bury_expired"):
                assert "--" + name.replace("_", "-")[:12] in usage, name


def option(setting: QueueSetting, value: Any) -> list[str]:
    name = "--" + setting.name.replace("_", "-")
    if setting.type is bool:
        return [name if value else "--" + setting.off.replace("_", "-")]
    return [name, "none" if value is None else str(value)]


def test_every_setting_of_the_specification_can_be_given_changed_and_taken_away(
    telesto: CommandLine, queue: str
) -> None:
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    for name, setting in QUEUE_SETTINGS.items():
        if setting.type is bool:
            first[name], second[name] = not setting.default, setting.default
        elif issubclass(setting.type, IntEnum):
            members = [member.name.lower() for member in setting.type]
            first[name], second[name] = members[0], members[-1]
        elif setting.unit == "queue":
            first[name], second[name] = queue, None
        else:
            first[name], second[name] = setting.least, None if setting.without else setting.most
    for command, given in (("create", first), ("update", second)):
        options = [part for name, value in given.items() for part in option(QUEUE_SETTINGS[name], value)]
        telesto.output("queue", command, "all", *options)
        (shown,) = telesto.objects("queue", "show", "all")
        assert {name: shown[name] for name in given} == given


def test_a_value_out_of_the_range_is_refused_by_the_option(telesto: CommandLine, queue: str) -> None:
    lease = QUEUE_SETTINGS["lease_ms"]
    for wrong, bound in ((lease.least - 1, lease.least), (lease.most + 1, lease.most)):
        said = telesto.error(2, "queue", "update", queue, *option(lease, wrong))
        assert "--lease-ms" in said
        assert f"equal to {bound} " in said
