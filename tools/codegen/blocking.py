"""Writes modules of the blocking client from those of the asyncio client."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

#: Which modules of the asyncio client become which of the blocking client.
TWINS = {
    "client/aio_consumer.py": "client/blocking_consumer.py",
    "client/aio_requests.py": "client/blocking_requests.py",
}

_RULES = [
    (
        re.compile(r'\A"""(The .*?) of the asyncio client;.*?"""', re.DOTALL),
        r'"""\1 of the blocking client."""',
    ),
    (re.compile(r"\basync (?=def\b|with\b|for\b)"), ""),
    (re.compile(r"\bawait "), ""),
    (re.compile(r"\bAsync(?=[A-Z])"), ""),
    (re.compile(r"\basync_(?=driver\b)"), ""),
    (re.compile(r"\baio_(?=consumer\b)"), "blocking_"),
    (re.compile(r"\b__a(?=(enter|exit|iter)__)"), "__"),
    (re.compile(r"\basyncio\b"), "threading"),
    (re.compile(r"  # noqa: ASYNC\d+.*"), ""),
]


def blocking_twin(source: str, text: str) -> str:
    """Returns the module of the blocking client that stands for one of the asyncio client.

    Args:
        source: the path of the asyncio client's module.
        text: what it holds.

    Raises subprocess.CalledProcessError when what comes of it is no Python.
    """
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = f"# {mark(source)}\n{text}"
    text = _ruff("check", "--quiet", "--select", "I", "--fix-only", name=TWINS[source], text=text)
    return _ruff("format", name=TWINS[source], text=text)


def mark(source: str) -> str:
    """Returns what the module that is written from this one says of itself."""
    return f'Generated from {source} by "python -m tools.codegen"; do not edit.'


def _ruff(*arguments: str, name: str, text: str) -> str:
    options = [f"--config={_CONFIG}", f"--stdin-filename={name}", "-"]
    command = [sys.executable, "-m", "ruff", *arguments, *options]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


#: How the repository's code is formatted.
_CONFIG = Path(__file__).resolve().parents[2] / "pyproject.toml"
