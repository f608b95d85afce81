"""Writes the generated files, or finds out which of those in the tree are not as they would be written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tools.codegen.blocking import TWINS, blocking_twins, mark
from tools.codegen.examples import conversation
from tools.codegen.loading import load
from tools.codegen.parts import with_parts
from tools.codegen.procedures import MARK as PROCEDURES_MARK
from tools.codegen.procedures import TARGET as CALLS
from tools.codegen.procedures import read_procedures
from tools.codegen.rendering import MARK, render, render_calls, render_parts

_SPEC = Path("protocol/spec/telesto.toml")
_TAKEOVER = Path("protocol/vectors/takeover.json")
_SUFFIXES = {".py", ".md", ".sql", ".json", ".toml", ".txt"}
#: The mark stands at the very beginning of a file; so much of it is read.
_HEAD_SIZE = 256
_MARKS = [MARK, PROCEDURES_MARK, *map(mark, TWINS)]


def generate(root: Path) -> list[str]:
    """Writes all generated files whose content changes; returns their paths."""
    changed = []
    for name, content in _files(root).items():
        path = root / name
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
            changed.append(name)
    return changed


def verify(root: Path) -> list[str]:
    """Returns what is wrong with the generated files in the tree, one sentence for each."""
    files = _files(root)
    problems = []
    for name, content in files.items():
        path = root / name
        if not path.exists():
            problems.append(f"{name}: is missing")
        elif path.read_text(encoding="utf-8") != content:
            problems.append(f"{name}: would change if it were generated again")
    strangers = sorted(name for name in _marked(root) if name not in files)
    return problems + [f"{name}: says that it is generated, but is not" for name in strangers]


def _files(root: Path) -> dict[str, str]:
    spec = load(root / _SPEC)
    rendered = render(spec, conversation(spec, root / _TAKEOVER))
    with_part = with_parts(root, render_parts(spec))
    sources = {
        source: with_part.get(source) or (root / source).read_text(encoding="utf-8") for source in TWINS
    }
    return {**rendered, **with_part, **blocking_twins(sources), CALLS: render_calls(read_procedures(root))}


def _marked(root: Path) -> Iterator[str]:
    """The paths of the files that say that they are generated."""
    for directory, subdirectories, names in os.walk(root):
        subdirectories[:] = [name for name in subdirectories if not _is_foreign(Path(directory, name))]
        for name in names:
            path = Path(directory, name)
            if path.suffix in _SUFFIXES:
                head = _head(path)
                if any(says in head for says in _MARKS):
                    yield path.relative_to(root).as_posix()


def _is_foreign(directory: Path) -> bool:
    name = directory.name
    return name.startswith(".") or name in ("__pycache__", "build", "dist") or directory.is_symlink()


def _head(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_HEAD_SIZE).decode("utf-8", errors="replace")
