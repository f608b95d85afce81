"""Runs the code blocks of a page in their order: ``page_program.py PAGE DIRECTORY SETTINGS``.

Python blocks share one namespace, and commands one shell. A Python block that begins with a comment that is
the name of a file is written to that file. What comments behind `print` promise, lines behind commands,
`-- gives` in SQL and answers behind `>>>`, has to come.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

LIMIT_S = 60.0
RUN = ("python", "pycon", "console", "sql")
#: Above a block that cannot run here; the reason is for readers of the source.
NOT_RUN = re.compile(r"<!-- not run: ([^\n]+) -->\n\Z")
FILE = re.compile(r"# (\S+\.\w+)\n")
PROMISED = re.compile(r"^(?:.*\bprint\(.*\) +)?# (.*)$", re.MULTILINE)
BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
#: What the tests have done before the first block.
DONE = re.compile(r"(?:telesto serve|telesto db upgrade|createdb|pip install|make|source)\b")
#: What only looks, and is asked again until it shows what is promised.
LOOKS = re.compile(r"telesto (?:dead list|queue (?:list|show)|message show|browse)\b|curl -s '")
END = "\x1eend"


@dataclass(frozen=True)
class Block:
    """A code block of a page; `line` is the one before its first."""

    language: str
    text: str
    line: int
    not_run: str | None

    @property
    def file(self) -> str | None:
        """The file that it is, if it says so."""
        found = FILE.match(self.text) if self.language == "python" else None
        return found[1] if found else None


def blocks_of(text: str) -> Iterator[Block]:
    """The code blocks of a page's text."""
    for found in BLOCK.finditer(text):
        body = re.sub(rf"^{found[1]}", "", found[3], flags=re.MULTILINE)
        not_run = NOT_RUN.search(text, 0, found.start())
        yield Block(found[2], body, text.count("\n", 0, found.start(3)), not_run and not_run[1])


class Shell:
    """One shell for the commands of a page."""

    def __init__(self) -> None:
        self._bash = subprocess.Popen(
            ["bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.run("set -m; trap 'kill -9 $(jobs -p) 2>/dev/null' EXIT", [])

    def _read(self) -> None:
        assert self._bash.stdout is not None
        for line in self._bash.stdout:
            self._lines.put(line.rstrip("\n"))
        self._bash.stdout.close()

    def run(self, command: str, promised: list[str]) -> None:
        """Run a command to its end and until what is promised was printed, by it or what runs beside it."""
        until = time.monotonic() + LIMIT_S
        said = self._run(command, promised, until)
        while said is not None and LOOKS.match(command) and time.monotonic() < until:
            said = self._run(command, promised, time.monotonic() + 1)
        assert said is None, f"$ {command}\nprinted {said}, promised {promised}"

    def _run(self, command: str, promised: list[str], until: float) -> list[str] | None:
        """What it has printed instead of what is promised, or None."""
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{command}\nstatus=$?; echo; echo {END} $status\n")
        self._bash.stdin.flush()
        wanted, said, status = list(promised), list[str](), None
        while status is None or wanted:
            looked_once = status is not None and LOOKS.match(command)
            try:
                line = self._lines.get(timeout=0 if looked_once else max(0, until - time.monotonic()))
            except queue.Empty:
                return said
            if line.startswith(END):
                status = line.split()[1]
                if status != "0":
                    return [*said, f"status {status}"]
                continue
            said.append(line)
            if wanted and fits(wanted[0], line):
                wanted.pop(0)
        return None

    def close(self) -> None:
        """End the shell and what it runs in the background."""
        assert self._bash.stdin is not None
        self._bash.stdin.close()
        self._bash.wait(LIMIT_S)
        self._reader.join(LIMIT_S)


def fits(promised: str, line: str) -> bool:
    """Whether a line is as promised; `...` stands for anything."""
    pattern = ".*".join(re.escape(part) for part in promised.strip().split("..."))
    return re.fullmatch(pattern, line.strip()) is not None


def commands_of(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that it promises to print."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        command = [lines.pop(0)]
        while command[-1].endswith("\\") or (lines and lines[0].startswith("> ")):
            command.append(lines.pop(0).removeprefix("> "))
        yield re.sub(r"  +# .*$", "", "\n".join(command)), [line for line in lines if line.strip()]


class Program:
    """The blocks of a page as one program."""

    def __init__(
        self, page: Path, languages: list[str], replacements: dict[str, str], database_url: str
    ) -> None:
        self._page, self._languages = page, languages
        self._replacements, self._database_url = replacements, database_url
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._shell: Shell | None = None

    def run(self) -> None:
        """Run all blocks."""
        try:
            for block in blocks_of(self._page.read_text(encoding="utf-8")):
                if block.not_run is None and block.language in self._languages:
                    getattr(self, f"_{block.language}")(block, self._replaced(block.text))
        finally:
            if self._shell is not None:
                self._shell.close()

    def _replaced(self, text: str) -> str:
        for old, new in self._replacements.items():
            text = text.replace(old, new)
        return text

    def _python(self, block: Block, text: str) -> None:
        if block.file is not None:
            Path(block.file).write_text(text, encoding="utf-8")
            return
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile("\n" * block.line + text, str(self._page), "exec"), self._names)
        said, promised = output.getvalue().splitlines(), PROMISED.findall(block.text)
        assert said == promised, f"{self._page}:{block.line}: printed {said}, promised {promised}"

    def _pycon(self, block: Block, text: str) -> None:
        test = doctest.DocTestParser().get_doctest(text, self._names, str(self._page), None, block.line)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        output = io.StringIO()
        failed = runner.run(test, out=output.write, clear_globs=False).failed
        self._names |= test.globs
        assert not failed, output.getvalue()

    def _console(self, block: Block, text: str) -> None:
        if self._shell is None:
            self._shell = Shell()
        for command, promised in commands_of(text):
            if not DONE.match(command):
                self._shell.run(command, promised)

    def _sql(self, block: Block, text: str) -> None:
        promised = re.findall(r"^-- gives (.*)$", text, re.MULTILINE)
        rows: list[str] = []
        with psycopg.connect(self._database_url, autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            while True:
                if cursor.description is not None:
                    rows += [" ".join(map(str, row)) for row in cursor]
                if not cursor.nextset():
                    break
        assert not promised or rows == promised, f"{self._page}:{block.line}: gives {rows}"


if __name__ == "__main__":
    settings = json.loads(sys.argv[3])
    os.chdir(sys.argv[2])
    sys.path.insert(0, sys.argv[2])
    Program(Path(sys.argv[1]), **settings).run()
