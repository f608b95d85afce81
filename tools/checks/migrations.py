"""The migrations are one chain: their numbers rise by one, and each follows the one before."""

from __future__ import annotations

import re
from pathlib import Path

NAME = re.compile(r"(\d{4})_\w+\.py")
ASSIGNMENT = re.compile(r'^(revision|down_revision) = (?:"(\w+)"|None)$', re.MULTILINE)


def migration_problems(folder: Path) -> list[str]:
    """List the files of a folder of migrations that have no number of their own or break the chain."""
    problems = []
    last: str | None = None
    for path in sorted(folder.glob("*.py")):
        where = f"db/migrations/versions/{path.name}"
        if (name := NAME.fullmatch(path.name)) is None:
            problems.append(f"{where}: the name is not a number of four digits and a word")
            continue
        number = name[1]
        said = dict(ASSIGNMENT.findall(path.read_text(encoding="utf-8")))
        expected = f"{int(last or 0) + 1:04}"
        if number != expected:
            problems.append(f"{where}: its number should be {expected}")
        if said.get("revision") != number:
            problems.append(f'{where}: it should say revision = "{number}"')
        if said.get("down_revision") != (last or ""):
            before = "None" if last is None else f'"{last}"'
            problems.append(f"{where}: it should say down_revision = {before}")
        last = number
    return problems
