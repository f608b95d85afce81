"""Writes modules of the blocking client from those of the asyncio client."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

#: Which modules of the asyncio client become which of the blocking client.
TWINS = {
    f"client/aio/{name}.py": f"client/blocking/{name}.py"
    for name in ("consumer", "lists", "queue", "requests", "topic")
}

_RULES = [
    (
        re.compile(r'\A"""([^"]*?) the asyncio client\b([^";]*);[^"]*"""'),
        r'"""\1 the blocking client\2."""',
    ),
    (re.compile(r"\basync (?=def\b|with\b|for\b)"), ""),
    (re.compile(r"\bawait "), ""),
    (re.compile(r"\bAsync(?=[A-Z])"), ""),
    (re.compile(r"\basync_(?=driver\b)"), ""),
    (re.compile(r"\bclient\.aio\b"), "client.blocking"),
    (re.compile(r"\bAwaitable\[((?:[^][]|\[(?:[^][]|\[[^][]*\])*\])*)\]"), r"\1"),
    (re.compile(r"\b__a(?=(enter|exit|iter)__)"), "__"),
    (re.compile(r"\bimport asyncio\b"), "import threading"),
    (re.compile(r"\basyncio(?=\.)"), "threading"),
    (re.compile(r"  # noqa: ASYNC\d+.*"), ""),
]


def blocking_twins(sources: dict[str, str]) -> dict[str, str]:
    """Returns the modules of the blocking client that stand for those of the asyncio client, by their paths.

    Args:
        sources: what the modules of the asyncio client hold, by their paths.

    Raises subprocess.CalledProcessError when what comes of one is no Python.
    """
    with TemporaryDirectory() as directory:
        paths = {target: Path(directory, target) for target in map(TWINS.__getitem__, sources)}
        for (source, text), path in zip(sources.items(), paths.values(), strict=True):
            for pattern, replacement in _RULES:
                text = pattern.sub(replacement, text)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# {mark(source)}\n{text}", encoding="utf-8")
        _ruff("check", "--quiet", "--select", "I,F401", "--fix-only", directory)
        _ruff("format", "--quiet", directory)
        return {target: path.read_text(encoding="utf-8") for target, path in paths.items()}


def mark(source: str) -> str:
    """Returns what the module that is written from this one says of itself."""
    return f'Generated from {source} by "python -m tools.codegen"; do not edit.'


def _ruff(*arguments: str) -> None:
    command = [sys.executable, "-m", "ruff", *arguments, f"--config={_CONFIG}", "--no-cache"]
    subprocess.run(command, capture_output=True, check=True)


#: How the repository's code is formatted.
_CONFIG = Path(__file__).resolve().parents[2] / "pyproject.toml"
