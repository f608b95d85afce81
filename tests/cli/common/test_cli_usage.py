import subprocess
import sys

import pytest
import typer

from command_line import TIMEOUT_S, CommandLine
from telesto.cli.common.app import COMMANDS
from telesto.cli.common.conversion import TYPER_VERSION
from telesto.cli.terminal.exit_codes import MEANINGS, ExitCode


def test_help_lists_commands_and_exit_codes(bare_telesto: CommandLine) -> None:
    shown = bare_telesto.output("--help").decode()
    for command in COMMANDS:
        assert command in shown
    for code, meaning in MEANINGS.items():
        assert f"{code.value}: {meaning.replace('`', '')}" in shown


def test_the_list_of_commands_is_the_same_without_their_options(bare_telesto: CommandLine) -> None:
    listed = bare_telesto.output("--help")
    assert bare_telesto.output("-h") == listed
    whole = "from telesto.cli.common.app import build; build([])(args=['--help'], prog_name='telesto')"
    result = subprocess.run(
        [sys.executable, "-c", whole],
        capture_output=True,
        env=bare_telesto.environment,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert result.stdout == listed


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(ExitCode)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(bare_telesto: CommandLine, command: str) -> None:
    assert b"Usage: telesto " + command.encode() in bare_telesto.output(command, "--help")


def test_version(bare_telesto: CommandLine) -> None:
    version = bare_telesto.objects("version")[0]
    assert version["protocol"] == "1.0"
    assert bare_telesto.output("--version").decode() == f"telesto {version['telesto']}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pin"], "No such command 'pin'. Did you mean 'ping'? (see: telesto --help)"),
        (["get"], "Missing argument 'QUEUE' (see: telesto get --help)"),
        (["get", "q", "--cuont", "3"], "No such option: --cuont"),
        (["get", "q", "--count", "many"], "--count"),
        (["queue", "make"], "No such command 'make'"),
        (
            ["--url", "telesto://localhost", "ping"],
            "the option --url goes behind the command: telesto COMMAND",
        ),
        (
            ["queue", "--json", "list"],
            "--json goes behind the command: telesto queue COMMAND ... --json (see",
        ),
        (
            ["get", "--state-dir", "x", "q"],
            "before the command: telesto --state-dir DIR get (see: telesto get",
        ),
        (["--ulr", "telesto://localhost", "ping"], "No such option: --ulr (see: telesto --help)"),
        (["ping", "--url", "http://localhost"], "'http://localhost' does not begin with telesto://"),
        (["ping", "--url", "telesto://localhost:seven"], "no valid port"),
    ],
)
def test_wrong_usage_is_one_line(bare_telesto: CommandLine, arguments: list[str], said: str) -> None:
    assert said in bare_telesto.error(2, *arguments)


@pytest.mark.parametrize("command", [["ping"], ["queue", "list"], ["put", "q", "x"], ["get", "q"]])
def test_service_that_does_not_run(bare_telesto: CommandLine, command: list[str]) -> None:
    said = bare_telesto.error(3, *command, "--url", "telesto://127.0.0.1:1")
    assert "cannot connect to 127.0.0.1:1" in said
    assert "telesto serve" in said


def test_unknown_failure_is_a_line_and_on_demand_a_traceback(bare_telesto: CommandLine) -> None:
    plant = "from telesto.cli.admin import ping; ping.ping = 'no'; from telesto.cli.main import run; run()"
    command = [sys.executable, "-c", plant, "ping"]
    for variables, expected in (
        ({}, "telesto: unexpected failure: "),
        ({"TELESTO_TRACEBACK": "1"}, "Traceback"),
    ):
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=bare_telesto.environment | variables,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert result.returncode == 70
        assert result.stderr.startswith(expected)


def test_typer_is_one_whose_conversions_can_be_skipped() -> None:
    assert typer.__version__.startswith(TYPER_VERSION), "see whether cli/common/conversion.py still fits"


def test_another_typer_is_left_as_it_is(bare_telesto: CommandLine) -> None:
    program = (
        "import typer; typer.__version__ = '0.30.0'; from typer.core import TyperOption;"
        "before = TyperOption.get_runtime_param; from telesto.cli.common.app import execute;"
        "assert execute(['version']) == 0; assert TyperOption.get_runtime_param is before"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=bare_telesto.environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr


HEAVY = {
    "asyncio",
    "asyncpg",
    "importlib.metadata",
    "opentelemetry",
    "psycopg",
    "pydantic",
    "rich",
    "ssl",
    "structlog",
    "telesto.db",
    "telesto.middleware",
    "uvloop",
}
"""Modules each of which takes a tenth or more of the time that a command may take to start."""


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        (["--help"], {"rich"}),
        (["put", "orders", "two boxes"], set()),
        (
            ["put", "orders", "two boxes", "--header", "a=b", "--delay", "5m"],
            {"importlib.metadata", "pydantic"},
        ),
        (["get", "orders"], set()),
        (["queue", "list"], set()),
        (["ping"], set()),
    ],
)
def test_light_commands_import_nothing_heavy(
    telesto: CommandLine, command: list[str], needed: set[str]
) -> None:
    telesto.output("queue", "declare", "orders")
    telesto.output("put", "orders", "a box")
    program = (
        "import sys; from telesto.cli.common.app import execute; "
        f"code = execute({command}); assert code == 0, code; "
        f"sys.stderr.write(' '.join({HEAVY} & set(sys.modules)))"
    )
    variables = telesto.environment | {"TELESTO_DATABASE_URL": "postgresql://owner@db.example/telesto"}
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=variables,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert set(result.stderr.split()) <= needed
