"""Writes the requests of the blocking client from those of the asyncio client."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SOURCE = "client/aio_requests.py"
TARGET = "client/blocking_requests.py"
MARK = 'Generated from client/aio_requests.py by "python -m tools.codegen"; do not edit.'

_RULES = [
    (re.compile(r'^""".*?"""', re.DOTALL), '"""The requests of the blocking client."""'),
    (re.compile(r"\basync (?=def\b|with\b|for\b)"), ""),
    (re.compile(r"\bawait "), ""),
    (re.compile(r"\bAsync(?=Requests\b|Iterator\b)"), ""),
    (re.compile(r"  # noqa: ASYNC\d+.*"), ""),
]


def blocking_requests(text: str) -> str:
    """Returns the module of the blocking client's requests, from that of the asyncio client's.

    Raises subprocess.CalledProcessError when what comes of it is no Python.
    """
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = _ruff("check", "--quiet", "--select", "I", "--fix-only", text=f"# {MARK}\n{text}")
    return _ruff("format", text=text)


def _ruff(*arguments: str, text: str) -> str:
    options = [f"--config={_CONFIG}", f"--stdin-filename={TARGET}", "-"]
    command = [sys.executable, "-m", "ruff", *arguments, *options]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


#: How the repository's code is formatted.
_CONFIG = Path(__file__).resolve().parents[2] / "pyproject.toml"
