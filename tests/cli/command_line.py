"""The command line as a user has it: `telesto` as a process."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from started import STARTED

TIMEOUT_S = 120.0
COMMAND = [*STARTED, sys.executable, "-m", "telesto.cli.main"]


class CommandLine:
    """Runs `telesto` with a home of its own, against the service at `url`."""

    def __init__(self, home: Path, url: str | None = None) -> None:
        self.home = home
        self.url = url
        self.command = COMMAND
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("TELESTO_", "XDG_"))
        }
        self.environment |= {"HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "COLUMNS": "120"}
        if url is not None:
            self.environment["TELESTO_URL"] = url

    def run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*COMMAND, *arguments],
            input=stdin,
            capture_output=True,
            env=self.environment,
            cwd=self.home,
            timeout=TIMEOUT_S,
            check=False,
        )

    def output(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run a command that must succeed without a word on standard error; what it prints."""
        result = self.run(*arguments, stdin=stdin)
        assert (result.returncode, result.stderr) == (0, b""), result
        return result.stdout

    def objects(self, *arguments: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.output(*arguments, "--json").splitlines()]

    def error(self, code: int, *arguments: str, stdin: bytes = b"") -> str:
        """Run a command that must fail with `code`; the one line that it says."""
        result = self.run(*arguments, stdin=stdin)
        said = result.stderr.decode()
        assert result.returncode == code, result
        assert result.stdout == b""
        assert said.startswith("telesto: ")
        assert said.count("\n") == 1, said
        return said

    @contextlib.contextmanager
    def started(
        self, *arguments: str, ignoring: tuple[str, ...] = (), **options: Any
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A running command, killed at the end of the block if it still runs.

        It finds the signals of `ignoring` ignored (INT), as what a shell has started in the background does.
        """
        command = [*COMMAND, *arguments]
        if ignoring:
            shell = ["sh", "-c", f"trap '' {' '.join(ignoring)}; exec \"$@\"", "sh"]
            command = [*STARTED, *shell, *command[len(STARTED) :]]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process: subprocess.Popen[bytes] = subprocess.Popen(
            command, env=self.environment, cwd=self.home, **(pipes | options)
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait(
                TIMEOUT_S
            )  # not for the end of its output, which a child that it leaves may hold open
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
