"""Variables of the environment that nothing reads are told."""

import json
import re
import signal
from pathlib import Path

import pytest

from command_line import TIMEOUT_S, CommandLine
from telesto.cli.common.variables import OTHERS, PREFIX
from telesto.cli.terminal.exit_codes import MEANINGS
from telesto.middleware.common.settings import ServerSettings

ROOT = Path(__file__).resolve().parents[3]


LINKS = {
    "TELESTO_SERVICE_HOST": "10.0.0.1",
    "TELESTO_SERVICE_PORT": "7001",
    "TELESTO_SERVICE_PORT_CLIENTS": "7001",
    "TELESTO_PORT": "tcp://10.0.0.1:7001",
    "TELESTO_PORT_7001_TCP": "tcp://10.0.0.1:7001",
    "TELESTO_PORT_7001_TCP_PROTO": "tcp",
    "TELESTO_PORT_7001_TCP_PORT": "7001",
    "TELESTO_PORT_7001_TCP_ADDR": "10.0.0.1",
}
"""What Kubernetes sets for a service called `telesto`."""


def said(command_line: CommandLine, *command: str, **environment: str) -> list[str]:
    command_line.environment |= environment
    result = command_line.run(*command or ("version",))
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
    known = OTHERS | {PREFIX + name.upper() for name in ServerSettings.model_fields}
    assert said(bare_telesto, **dict.fromkeys(known, ""), telesto_max_batch="1") == []


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


def test_shown_settings_come_with_what_is_unknown(bare_telesto: CommandLine) -> None:
    lines = said(bare_telesto, "serve", "--show-config", TELESTO_MAX_BACTH="3")
    assert (
        [line for line in lines if "TELESTO_MAX_BACTH" in line and "TELESTO_MAX_BATCH" in line] == lines != []
    )


@pytest.mark.parametrize("command", ["version", "serve"])
def test_links_to_a_kubernetes_service_are_no_settings(bare_telesto: CommandLine, command: str) -> None:
    options = ["--show-config"] if command == "serve" else []
    bare_telesto.environment |= LINKS | {"TELESTO_MAX_BATCH": "77"}
    result = bare_telesto.run(command, *options)
    assert result.returncode == 0
    assert result.stderr.decode() == (
        "telesto: TELESTO_PORT and 7 more environment variables are links to a Kubernetes service "
        "and have no effect; enableServiceLinks: false in the pod's specification removes them\n"
    )
    if command == "serve":
        assert b"\nport = 7001\n" in result.stdout
        assert b"\nmax_batch = 77\n" in result.stdout


def test_a_service_starts_beside_links_and_logs_them(bare_telesto: CommandLine, database_url: str) -> None:
    bare_telesto.environment |= LINKS | {"TELESTO_LOG_JSON": "true"}
    arguments = ("serve", "--host", "127.0.0.1", "--port", "0", "--json", "--database-url", database_url)
    with bare_telesto.started(*arguments) as process:
        assert process.stderr is not None
        line = json.loads(process.stderr.readline())
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["url"].startswith("telesto://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_S)
    assert (line["event"], line["level"]) == ("service_links_ignored", "warning")
    assert line["names"] == sorted(LINKS)


@pytest.mark.parametrize(
    ("environment", "options", "expected"),
    [
        ({"TELESTO_PORT": "many"}, [], "the setting port (TELESTO_PORT) cannot be 'many'"),
        ({"telesto_max_batch": "0"}, [], "the setting max_batch (telesto_max_batch) cannot be '0'"),
        # A link without its companions may be a mistake of a person.
        (
            {"TELESTO_PORT": "tcp://10.0.0.1:7001"},
            [],
            "if Kubernetes has set it, give the pod enableServiceLinks: false",
        ),
        (
            {"TELESTO_DATABASE_URL": "http://x"},
            [],
            "the setting database_url (TELESTO_DATABASE_URL) cannot be used",
        ),
        (
            {"TELESTO_DATABASE_URL": "http://x"},
            ["--database-url", "http://y"],
            "(--database-url) cannot be used",
        ),
        ({}, ["--config", "wrong.toml"], "the setting max_batch cannot be 0"),
    ],
)
def test_a_wrong_setting_is_told_with_where_it_comes_from(
    bare_telesto: CommandLine, environment: dict[str, str], options: list[str], expected: str
) -> None:
    (bare_telesto.home / "wrong.toml").write_text("max_batch = 0")
    bare_telesto.environment |= environment
    assert expected in bare_telesto.error(2, "serve", "--show-config", *options)


def _documented() -> str:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    return "\n".join(page.read_text() for page in pages)


def test_every_variable_that_the_code_names_is_documented() -> None:
    """By its name, or as a setting of the service in the table of settings."""
    pages = _documented()
    settings = (ROOT / "docs" / "reference" / "settings.md").read_text()
    named = set(OTHERS)
    for package in ("cli", "client", "db", "middleware", "protocol", "tasks", "testing"):
        for file in (ROOT / package).rglob("*.py"):
            named |= set(re.findall(r"\bTELESTO_[A-Z][A-Z_]*[A-Z]\b", file.read_text()))
    assert {"TELESTO_TRACEBACK", "TELESTO_RETRY_FOR", "TELESTO_LOG_LEVEL"} <= named
    fields = {PREFIX + name.upper(): name for name in ServerSettings.model_fields}
    missing = [
        name
        for name in sorted(named | set(fields))
        if not (
            f"| `{fields.get(name)}` |" in settings if name in fields else re.search(rf"\b{name}\b", pages)
        )
    ]
    assert missing == []


def test_every_exit_code_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text().replace("\\|", "|")
    listed = re.findall(r"^\| (\d+) \| (.*) \|$", page, re.MULTILINE)
    assert listed == [(str(code.value), meaning) for code, meaning in MEANINGS.items()]
