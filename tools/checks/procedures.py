"""The file of a procedure or a row type says at its head and beside what it declares what readers need."""

from __future__ import annotations

from pathlib import Path

SECTIONS = ("Purpose", "Errors", "Locks", "Tables")


def procedure_problems(folder: Path) -> list[str]:
    """List what the SQL files of a folder lack: parts of the head, comments beside parameters, functions."""
    problems = []
    for path in sorted(folder.rglob("*.sql")):
        text = path.read_text(encoding="utf-8")
        name = f"db/procedures/{path.relative_to(folder)}"
        head, _, function = text.partition("\nCREATE")
        is_type = path.parent.name == "types"
        signature = function.partition("\nLANGUAGE")[0].splitlines()
        # What is returned has a name and a comment in the signature, or stands at the head.
        named = any(
            line.startswith(("    OUT ", "    INOUT ", "RETURNS TABLE", "RETURNS SETOF telesto."))
            for line in signature
        )
        sections = ("Purpose",) if is_type else SECTIONS if named else (*SECTIONS, "Returns")
        problems += [
            f"{name}: the head has no line '{section}:'"
            for section in sections
            if f"-- {section}:" not in head
        ]
        problems += [
            f"{name}: `{line.strip()}` has no comment"
            for line in signature
            if line.startswith("    ") and " -- " not in line
        ]
        if f"telesto.{path.stem}{' AS ' if is_type else ''}(" not in text:
            problems.append(f"{name}: defines no {'type' if is_type else 'function'} telesto.{path.stem}")
    return problems
