"""Generated parts of files that are written by hand otherwise, each between two marks.

A part is what cannot stand in a file of its own: a table of a document, the parameters of a procedure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

BEGIN = "queue settings: begin, generated from protocol/spec/telesto.toml"
END = "queue settings: end"


class PartError(Exception):
    """A file has no place for its generated part."""


def with_part(root: Path, name: str, parts: Sequence[str]) -> str:
    """Returns the text of a file with the parts between their marks, in their order. Raises PartError."""
    text = (root / name).read_text(encoding="utf-8")
    marks = re.compile(
        rf"(^[^\n]*{re.escape(BEGIN)}[^\n]*\n).*?(^[^\n]*{re.escape(END)}[^\n]*\n)", re.DOTALL | re.MULTILINE
    )
    if len(marks.findall(text)) != len(parts):
        places = "one place" if len(parts) == 1 else f"{len(parts)} places"
        raise PartError(f"{name}: it must have {places} between '{BEGIN}' and '{END}'")
    rest = iter(parts)
    return marks.sub(lambda found: found[1] + next(rest) + found[2], text)


def with_parts(root: Path, parts: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Returns the texts of all files that have generated parts, by their paths."""
    return {name: with_part(root, name, of_file) for name, of_file in parts.items()}
