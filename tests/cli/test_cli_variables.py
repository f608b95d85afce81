"""Variables of the environment that nothing reads are told."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from command_line import TIMEOUT_S, CommandLine
from telesto.cli.variables import OTHERS, PREFIX
from telesto.middleware.settings import ServerSettings

ROOT = Path(__file__).resolve().parents[2]


def said(command_line: CommandLine, **environment: str) -> list[str]:
    command_line.environment |= environment
    result = command_line.run("version")
    assert result.returncode == 0
    return result.stderr.decode().splitlines()


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("TELESTO_MAX_BACTH", "TELESTO_MAX_BATCH"),
        ("TELESTO_STATEDIR", "TELESTO_STATE_DIR"),
        ("telesto_url", "TELESTO_URL"),
        ("TELESTO_DATABASE", "TELESTO_DATABASE_URL"),
    ],
)
def test_the_name_that_was_meant_is_told(bare_telesto: CommandLine, name: str, nearest: str) -> None:
    assert said(bare_telesto, **{name: "1"}) == [
        f"telesto: the environment variable {name} is unknown and has no effect; did you mean {nearest}?"
    ]


def test_without_a_name_like_it_none_is_told(bare_telesto: CommandLine) -> None:
    assert said(bare_telesto, TELESTO_XYZZY="1", OTHER="1") == [
        "telesto: the environment variable TELESTO_XYZZY is unknown and has no effect"
    ]


def test_what_is_read_is_not_told(bare_telesto: CommandLine) -> None:
    settings = {PREFIX + name.upper(): "" for name in ServerSettings.model_fields}
    assert said(bare_telesto, **settings, **dict.fromkeys(OTHERS, ""), telesto_max_batch="1") == []


def test_all_that_is_read_is_known() -> None:
    known = OTHERS | {PREFIX + name.upper() for name in ServerSettings.model_fields}
    folders = ("client", "cli", "middleware", "benchmarks", "db")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    read = {name for file in files for name in re.findall(r"\"(TELESTO_[A-Z_]+)\"", file.read_text())}
    assert len(read) > 10
    assert read <= known


def test_a_service_tells_it_in_its_log(bare_telesto: CommandLine, database_url: str) -> None:
    bare_telesto.environment |= {"TELESTO_LOG_JSON": "true", "TELESTO_MAX_BACTH": "3"}
    arguments = ("serve", "--port", "0", "--database-url", database_url)
    with bare_telesto.started(*arguments) as process:
        assert process.stderr is not None
        line = json.loads(process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_S)
    assert (line["event"], line["level"]) == ("unknown_variable", "warning")
    assert (line["name"], line["nearest"]) == ("TELESTO_MAX_BACTH", "TELESTO_MAX_BATCH")
