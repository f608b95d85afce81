"""The procedures that belong to this release: which files, in which order, for whom."""

import hashlib
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


@dataclass(frozen=True, slots=True)
class Procedure:
    """One procedure name and the SQL text that creates it."""

    name: str
    access: Access
    sql: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """All procedures in the order of their installation.

    `edition` rises with every release that changes a procedure. `serves` is the oldest edition whose
    middlewares still run on this one.
    """

    edition: int
    serves: int
    procedures: tuple[Procedure, ...]

    @property
    def checksum(self) -> str:
        """SHA-256 over editions, names, access and texts: what `installation.checksum` holds."""
        digest = hashlib.sha256(f"{self.edition}\n{self.serves}\n".encode())
        for procedure in self.procedures:
            digest.update(f"{procedure.name}\n{procedure.access}\n{procedure.sql}\n".encode())
        return digest.hexdigest()


def procedures_directory() -> Traversable:
    """Where the SQL files are, also inside an installed package."""
    return files("telesto.db") / "procedures"


def load_manifest(directory: Traversable | None = None) -> Manifest:
    """Read manifest.toml and the SQL file of each procedure that it names.

    Raises FileNotFoundError when a file is missing and ValueError when a name stands in it twice.
    """
    directory = directory or procedures_directory()
    content = tomllib.loads((directory / "manifest.toml").read_text(encoding="utf-8"))
    procedures = tuple(_read_procedure(directory, entry) for entry in content["procedure"])
    names = [procedure.name for procedure in procedures]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"manifest.toml names {', '.join(repeated)} more than once")
    return Manifest(content["edition"], content["serves"], procedures)


def _read_procedure(directory: Traversable, entry: dict[str, str]) -> Procedure:
    path = PurePosixPath(entry["file"])
    sql = directory.joinpath(*path.parts).read_text(encoding="utf-8")
    return Procedure(path.stem, Access(entry["access"]), sql)
