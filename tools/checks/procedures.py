"""The file of a procedure or a row type says at its head and beside what it declares what readers need."""

from __future__ import annotations

import re
from pathlib import Path

#: A part of the head, and what in a function asks for it. A head without a part says that there is none.
SECTIONS = {
    "Purpose": re.compile(""),
    "Errors": re.compile(r"\bRAISE EXCEPTION\b|telesto\.raise_error\("),
    "Locks": re.compile(r"\bpg_(?:try_)?advisory_xact|\bFOR UPDATE\b|\bLOCK TABLE\b"),
    "Tables": re.compile(r"\b(?:FROM|INTO|UPDATE|JOIN) (?:ONLY )?telesto\.\w+\b(?!\()"),
}


def procedure_problems(folder: Path) -> list[str]:
    """List what the SQL files of a folder lack: parts of the head, comments beside parameters, functions."""
    problems = []
    for path in sorted(folder.rglob("*.sql")):
        text = path.read_text(encoding="utf-8")
        name = f"db/procedures/{path.relative_to(folder)}"
        head, _, function = text.partition("\nCREATE")
        is_type = path.parent.name == "types"
        signature = function.partition("\nLANGUAGE")[0].splitlines()
        wanted = (
            ["Purpose"] if is_type else [part for part, sign in SECTIONS.items() if sign.search(function)]
        )
        # What is returned has a name and a comment in the signature, or stands at the head.
        named = ("    OUT ", "    INOUT ", "RETURNS TABLE", "RETURNS SETOF telesto.", "RETURNS void")
        if not is_type and not any(line.startswith(named) for line in signature):
            wanted.append("Returns")
        problems += [
            f"{name}: the head has no line '{section}:'" for section in wanted if f"-- {section}:" not in head
        ]
        problems += [
            f"{name}: `{line.strip()}` has no comment"
            for line in signature
            if line.startswith("    ") and " -- " not in line
        ]
        if f"telesto.{path.stem}{' AS ' if is_type else ''}(" not in text:
            problems.append(f"{name}: defines no {'type' if is_type else 'function'} telesto.{path.stem}")
    return problems
