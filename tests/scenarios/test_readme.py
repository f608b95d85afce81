"""What the README promises a newcomer works as it is printed there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from started import STARTED, end

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DEFAULT_URL = "telesto://127.0.0.1:7001"
TIMEOUT_S = 60.0


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


def _serve(database_url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*STARTED, sys.executable, "-m", "telesto.cli.main", "serve", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"TELESTO_DATABASE_URL": database_url},
    )


def test_python_of_the_readme(database_url: str) -> None:
    programs = _blocks("python")
    assert programs
    with _serve(database_url) as service:
        assert service.stdout is not None
        try:
            url = json.loads(service.stdout.readline())["url"]
            for program in programs:
                assert DEFAULT_URL in program
                _check_output(program.replace(DEFAULT_URL, url))
        finally:
            end(service)


def _check_output(program: str) -> None:
    """Run a program; what it prints is what the comments behind its prints say."""
    result = subprocess.run(
        [*STARTED, sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    promised = re.findall(r"print\(.*\)\s*# (.*)$", program, re.MULTILINE)
    assert result.stdout.splitlines() == promised


def test_command_line_of_the_readme(database_url: str, tmp_path: Path) -> None:
    """The commands of a console block run in their order; `serve` and `db` belong to the service."""
    commands = [
        line.removeprefix("$ ").partition("  #")[0]
        for block in _blocks("console")
        for line in block.splitlines()
        if line.startswith("$ telesto ") and not line.startswith(("$ telesto serve", "$ telesto db"))
    ]
    assert commands
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with _serve(database_url) as service:
        assert service.stdout is not None
        try:
            environment["TELESTO_URL"] = json.loads(service.stdout.readline())["url"]
            environment["XDG_STATE_HOME"] = str(tmp_path)
            for command in commands:
                result = subprocess.run(
                    [*STARTED, "sh", "-c", command],
                    capture_output=True,
                    env=environment,
                    timeout=TIMEOUT_S,
                    check=False,
                )
                assert (result.returncode, result.stderr) == (0, b""), command
        finally:
            end(service)
