"""The procedures of this release: their files, their order, and who may call them."""

import hashlib
import re
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath


class Access(StrEnum):
    """Who may call a procedure."""

    PUBLIC = "public"
    """Middlewares and SQL users, as far as the grants go."""
    INTERNAL = "internal"
    """Other procedures only."""


class Plans(StrEnum):
    """The planner's freedom in a public procedure, whatever the settings of the calling session."""

    PINNED = "pinned"
    """None: rows are found by an index and come in its order."""
    SORTING = "sorting"
    """As pinned, but it may sort."""
    FREE = "free"
    """Full, except for settings in the file."""


_SEARCH_PATH = "SET search_path = pg_catalog, telesto, pg_temp"
_SORTING = """SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off"""
_SETTINGS = {
    Plans.PINNED: f"{_SEARCH_PATH}\n{_SORTING}\nSET enable_sort = off",
    Plans.SORTING: f"{_SEARCH_PATH}\n{_SORTING}",
    Plans.FREE: _SEARCH_PATH,
}
# `:QUEUE_FULL` or `:CREATE_QUEUE`, but not the second half of `::name`.
_NAME = re.compile(r"(?<![:\w]):([A-Z_]+)\b")


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure and the SQL text that creates it, with the settings and codes of the manifest."""

    name: str
    access: Access
    sql: str


@dataclass(frozen=True, slots=True)
class RowType:
    """A composite type whose rows several procedures return, and the SQL text that creates it."""

    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """All row types and procedures in the order of their installation: types first.

    `edition` rises with every release that changes a procedure. `serves` is the oldest edition whose
    middlewares still run on this one.
    """

    edition: int
    serves: int
    types: tuple[RowType, ...]
    procedures: tuple[Procedure, ...]

    @property
    def checksum(self) -> str:
        """SHA-256 over editions, names, access and texts: the value of `installation.checksum`."""
        digest = hashlib.sha256(f"{self.edition}\n{self.serves}\n".encode())
        for row_type in self.types:
            digest.update(f"{row_type.name}\n{row_type.sql}\n".encode())
        for procedure in self.procedures:
            digest.update(f"{procedure.name}\n{procedure.access}\n{procedure.sql}\n".encode())
        return digest.hexdigest()


def procedures_directory() -> Traversable:
    """The directory of the SQL files, also in an installed package."""
    return files("telesto.db") / "procedures"


def load_manifest(directory: Traversable | None = None) -> Manifest:
    """Read manifest.toml and the SQL file of each type and procedure in it.

    Raises FileNotFoundError if a file is missing, and ValueError if a name occurs twice or a procedure uses
    an unknown error or packet.
    """
    directory = directory or procedures_directory()
    content = tomllib.loads((directory / "manifest.toml").read_text(encoding="utf-8"))
    codes = content.get("errors", {}) | content.get("methods", {})
    procedures = tuple(_read_procedure(directory, entry, codes) for entry in content["procedure"])
    names = [procedure.name for procedure in procedures]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"manifest.toml names {', '.join(repeated)} more than once")
    types = tuple(RowType(*_read_file(directory, entry)) for entry in content.get("type", []))
    return Manifest(content["edition"], content["serves"], types, procedures)


def _read_file(directory: Traversable, entry: dict[str, str]) -> tuple[str, str]:
    """Return the name and the text of an entry's file."""
    path = PurePosixPath(entry["file"])
    return path.stem, directory.joinpath(*path.parts).read_text(encoding="utf-8")


def _read_procedure(directory: Traversable, entry: dict[str, str], codes: dict[str, int]) -> Procedure:
    name, sql = _read_file(directory, entry)
    unknown = sorted(set(_NAME.findall(sql)) - codes.keys())
    if unknown:
        raise ValueError(f"{entry['file']}: manifest.toml has no error or packet {', '.join(unknown)}")
    sql = _NAME.sub(lambda match: str(codes[match[1]]), sql)
    access = Access(entry["access"])
    if access is Access.PUBLIC:
        settings = _SETTINGS[Plans(entry.get("plans", Plans.PINNED))]
        sql = re.sub(r"^(LANGUAGE .*)$", rf"\1\n{settings}", sql, flags=re.MULTILINE)
    return Procedure(name, access, sql)
