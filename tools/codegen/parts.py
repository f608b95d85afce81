"""Generated parts of files that are written by hand otherwise, each between two marks.

A part is what cannot stand in a file of its own: a table of a document, and a clause of a statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

BEGIN = "queue settings: begin, generated from protocol/spec/telesto.toml"
END = "queue settings: end"


class PartError(Exception):
    """A file has no place for its generated part."""


def with_part(root: Path, name: str, part: str) -> str:
    """Returns the text of a file with the part between its marks. Raises PartError."""
    text = (root / name).read_text(encoding="utf-8")
    marks = re.compile(
        rf"(^[^\n]*{re.escape(BEGIN)}[^\n]*\n).*?(^[^\n]*{re.escape(END)}[^\n]*\n)", re.DOTALL | re.MULTILINE
    )
    if len(marks.findall(text)) != 1:
        raise PartError(f"{name}: it must have one place between '{BEGIN}' and '{END}'")
    return marks.sub(lambda found: found[1] + part + found[2], text)


def with_parts(root: Path, parts: Mapping[str, str]) -> dict[str, str]:
    """Returns the texts of all files that have a generated part, by their paths."""
    return {name: with_part(root, name, part) for name, part in parts.items()}
