"""Every procedure's file begins with a header that says what a reader has to know."""

from __future__ import annotations

from pathlib import Path

SECTIONS = ("Purpose", "Parameters", "Returns", "Errors", "Locks", "Tables")


def procedure_problems(folder: Path) -> list[str]:
    """List the SQL files of a folder whose header lacks a section or whose function has another name."""
    problems = []
    for path in sorted(folder.rglob("*.sql")):
        text = path.read_text(encoding="utf-8")
        name = f"db/procedures/{path.relative_to(folder)}"
        header = text.split("\nCREATE", 1)[0]
        problems += [
            f"{name}: the header has no line '{section}:'"
            for section in SECTIONS
            if f"-- {section}:" not in header
        ]
        if f"telesto.{path.stem}(" not in text:
            problems.append(f"{name}: defines no function telesto.{path.stem}")
    return problems
