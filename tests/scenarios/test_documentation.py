"""What docs/ promises works as it is printed there: its programs, its SQL, its commands, its lists of names.

The README has tests of its own in test_readme.py.
"""

import itertools
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from page_program import RUN, blocks_of
from running import clean_environment, serving
from started import STARTED
from telesto import client, tasks
from telesto.cli.common.app import COMMANDS, build
from telesto.db.install.roles import load_roles
from tools.documentation import generated, hooks

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("page_program.py")
SQL = ROOT / "docs" / "reference" / "sql.md"
OPERATIONS = ROOT / "docs" / "how-to" / "operations.md"
DEFAULT_URL = "telesto://127.0.0.1:7001"
DATABASE_URL = "postgresql://127.0.0.1/shop"
TIMEOUT_S = 60.0
#: The languages of blocks; those that are not in RUN are for reading only.
KNOWN = {*RUN, "", "ini", "json", "mermaid", "toml", "yaml"}
#: The classes of errors, which the page of errors begins with.
BRANCHES = {"ErrorInfo", "FatalError", "InDoubtError", "RejectedError", "RetryableError", "TelestoError"}


def _blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page, behind so many empty lines that their line numbers are those of the page."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return ["\n" * text.count("\n", 0, block.start(1)) + block[1] for block in found]


def _section(page: Path, heading: str) -> str:
    return page.read_text(encoding="utf-8").partition(f"\n{heading}\n")[2].partition("\n#")[0]


@pytest.fixture
def service(database_url: str) -> Iterator[dict[str, Any]]:
    """A running service: what `telesto serve --json` says about it."""
    with serving(database_url) as service:
        yield service


# ---------------------------------------------------------------------------- every page
#: Blocks of other products, long measurements and the like; a page that has more of them says so here.
NOT_RUN_MAX = 40


def _pages() -> list[Path]:
    return [
        page
        for page in sorted(ROOT.glob("docs/**/*.md"))
        if any(block.language in RUN for block in blocks_of(page.read_text(encoding="utf-8")))
    ]


@pytest.fixture
def _shop_app(database_url: str) -> Iterator[None]:
    """The role of an application in SQL, which all databases of the server have."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS shop_app")
        connection.execute("CREATE ROLE shop_app LOGIN")
        yield
        connection.execute("DROP ROLE shop_app")


@pytest.mark.parametrize("page", _pages(), ids=lambda page: page.name)
@pytest.mark.usefixtures("_shop_app")
def test_blocks_of_the_page(page: Path, service: dict[str, Any], database_url: str, tmp_path: Path) -> None:
    """They run in their order, in one namespace and one shell, and print what the page promises."""
    settings = {
        # The SQL of these two has roles, and a test of its own.
        "languages": [name for name in RUN if name != "sql" or page not in (SQL, OPERATIONS)],
        "replacements": {
            DEFAULT_URL: service["url"],
            DATABASE_URL: database_url,
            "$(telesto db url)": database_url,
            "8000": str(_free_port()),
        },
        "database_url": database_url,
    }
    python = [*STARTED, sys.executable, "-W", "error"]
    result = subprocess.run(
        [*python, str(PROGRAM), str(page), str(tmp_path), json.dumps(settings)],
        capture_output=True,
        text=True,
        env=clean_environment()
        | {
            "TELESTO_URL": service["url"],
            "TELESTO_STATE_DIR": str(tmp_path / "states"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "COLUMNS": "200",
            "PYTHONUNBUFFERED": "",  # so that a line is written as a whole
        },
        timeout=4 * TIMEOUT_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_blocks_that_are_not_run_can_be_and_are_few() -> None:
    """Their Python can be compiled at least; the options of Telesto's commands are looked at below."""
    left_out = 0
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]):
        for block in blocks_of(page.read_text(encoding="utf-8")):
            assert block.language in KNOWN, f"{page}:{block.line}: {block.language}"
            left_out += block.not_run is not None
            if block.language == "python":
                compile("\n" * block.line + block.text, str(page), "exec")
    assert 0 < left_out <= NOT_RUN_MAX


# ---------------------------------------------------------------------------- what the site generates
def test_the_reference_has_every_public_name() -> None:
    python, errors = generated.python(), generated.errors()
    for name in set(client.__all__) - {"ERRORS", "PROTOCOL_MAJOR", "PROTOCOL_MINOR", *BRANCHES}:
        if not name.startswith("Async"):
            assert f"::: telesto.client.{name}\n" in python or f"| `{name}` |" in errors, name
    for name in tasks.__all__:
        assert f"::: telesto.tasks.{name}\n" in python


def test_a_page_that_is_built_says_in_the_repository_where_to_look() -> None:
    parts = []
    for page in sorted(ROOT.glob("docs/**/*.md")):
        for found in hooks.PART.finditer(page.read_text(encoding="utf-8")):
            assert "`make docs`" in found[0], page
            parts.append(found[1])
    assert sorted(parts) == sorted(generated.PARTS)


def test_the_reference_has_every_command_and_its_options() -> None:
    commands = generated.commands()
    assert "## `telesto queue create`" in commands
    for word in COMMANDS:
        assert f"## `telesto {word}`" in commands
    assert "`--partition-key KEY`" in commands


def test_the_reference_has_what_applications_may_call(database_url: str) -> None:
    granted = next(role.execute for role in load_roles() if role.name == "telesto_application")
    listed = {
        part.partition("`")[0]: re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)
        for part in generated.procedures().split("### `")[1:]
    }
    assert sorted(listed) == sorted(granted)
    with psycopg.connect(database_url) as connection:
        installed = connection.execute(
            "SELECT proname, coalesce(proargnames[1:pronargs], '{}') FROM pg_proc "
            "WHERE pronamespace = 'telesto'::regnamespace AND proname = ANY (%s)",
            (list(granted),),
        ).fetchall()
    assert listed == dict(installed)


# ---------------------------------------------------------------------------- SQL
@pytest.mark.parametrize("page", [SQL, OPERATIONS], ids=lambda page: page.name)
def test_sql_of_the_page(page: Path, database_url: str) -> None:
    """The blocks run in their order; between them, what was put is placed as a middleware does it."""
    user = f"shop_{uuid.uuid4().hex}"  # a role belongs to the whole server
    try:
        for block in _blocks(page, "sql"):
            _run_block(database_url, re.sub(r"\bshop\b", user, block), user)
            _execute(database_url, "SELECT telesto.place_staged(1000)")
    finally:
        if _execute(database_url, f"SELECT FROM pg_roles WHERE rolname = '{user}'"):
            _execute(database_url, f"DROP OWNED BY {user} CASCADE; DROP ROLE {user}")


def _run_block(database_url: str, block: str, user: str) -> None:
    """Run a block as whom its first line says, by default `user`; it gives or refuses what comments say."""
    as_whom = re.search(r"^-- as .*?(telesto_\w+)?$", block, re.MULTILINE)
    role = user if as_whom is None else as_whom[1]
    refusal = re.search(r"^-- refused with (\w+)$", block, re.MULTILINE)
    if refusal is not None:
        with pytest.raises(psycopg.Error) as refused:
            _execute(database_url, block, role)
        assert refused.value.sqlstate == refusal[1]
        return
    rows = _execute(database_url, block, role)
    promised = re.findall(r"^-- gives (.*)$", block, re.MULTILINE)
    if promised:
        assert rows == promised, block


def _execute(database_url: str, statements: str, role: str | None = None) -> list[str]:
    """Execute statements, as the superuser or in a role; the rows of all of them as text."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        if role is not None:
            connection.execute(f"SET ROLE {role}".encode())
        cursor = connection.execute(statements.encode())
        rows: list[str] = []
        while True:
            if cursor.description is not None:
                rows += [" ".join(map(str, row)) for row in cursor]
            if not cursor.nextset():
                return rows


# ---------------------------------------------------------------------------- running it
def test_operations_page_lists_the_metrics(service: dict[str, Any]) -> None:
    with urllib.request.urlopen(f"http://{service['admin_address']}/metrics", timeout=TIMEOUT_S) as answer:
        served = re.findall(r"^# TYPE (\w+) ", answer.read().decode(), re.MULTILINE)
    section = _section(OPERATIONS, "### Metrics")
    listed = re.findall(r"`(telesto_\w+)(?:\{[\w,]+\})?`", section)
    only_with_tls = "telesto_tls_certificate_left_seconds"
    assert sorted(listed) == sorted(
        [only_with_tls, *(name for name in served if not name.startswith("process_"))]
    )
    assert "`process_*`" in section  # those of the Prometheus library


def test_commands_of_the_pages_have_these_options(capsys: pytest.CaptureFixture[str]) -> None:
    """With --help behind it a command does nothing, but an option that it does not have is refused."""
    commands = [
        line.removeprefix("$ telesto ").partition("  #")[0]
        for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
        for block in _blocks(page, "console")
        for line in block.splitlines()
        if line.startswith("$ telesto ")
    ]
    assert commands
    for command in commands:
        words = list(itertools.takewhile(lambda word: word not in ("|", "&"), shlex.split(command)))
        build(words)(args=[*words, "--help"], prog_name="telesto", standalone_mode=False)
        assert "Usage: telesto" in capsys.readouterr().out
