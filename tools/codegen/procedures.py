"""Writes the calls of procedures that middlewares make from the signatures of these procedures."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = "db/procedures"
TARGET = "db/calls.py"
MARK = 'Generated from db/procedures by "python -m tools.codegen"; do not edit.'

_SIGNATURE = re.compile(
    r"^CREATE OR REPLACE FUNCTION telesto\.(\w+)\((?:|(.*?)^)\).*?^LANGUAGE ([^\n]*)",
    re.MULTILINE | re.DOTALL,
)
_PARAMETER = re.compile(r"^    (?!OUT )(\w+) ([a-z ]+?(?:\[\])?)(?: DEFAULT .*?)?,? +-- ", re.MULTILINE)
_PURPOSE = re.compile(r"^-- Purpose: +(.*?\.)(?:\n(?:-- [A-Z]|CREATE)| (?=[A-Z]))", re.MULTILINE | re.DOTALL)
#: What asyncpg takes for a parameter of a type; times are in microseconds since 1970.
_PYTHON = {
    "bigint": "int",
    "boolean": "bool",
    "bytea": "bytes",
    "double precision": "float",
    "int": "int",
    "jsonb": "str",
    "smallint": "int",
    "text": "str",
    "timestamptz": "int",
}


class ProcedureError(Exception):
    """A procedure's file lacks what its call is generated from."""


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure that middlewares call.

    Attributes:
        purpose: what it does, in a sentence.
        parameters: the Python type of each parameter that goes in, by its name, in their order.
        reads: whether it is STABLE, so that it cannot write.
    """

    name: str
    purpose: str
    parameters: dict[str, str]
    reads: bool


def read_procedures(root: Path) -> list[Procedure]:
    """Returns the procedures that the role of the middlewares may execute, by name.

    Raises ProcedureError.
    """
    folder = root / FOLDER
    grants = tomllib.loads((folder / "grants.toml").read_text(encoding="utf-8"))
    paths = {path.stem: path for path in folder.rglob("*.sql")}
    wanted = sorted(grants["role"]["telesto_middleware"]["execute"])
    return [_procedure(name, paths[name].read_text(encoding="utf-8")) for name in wanted]


def _procedure(name: str, text: str) -> Procedure:
    signature, purpose = _SIGNATURE.search(text), _PURPOSE.search(text)
    if signature is None or purpose is None or signature[1] != name:
        raise ProcedureError(f"{name}: the file has no such function, or no purpose")
    parameters = {}
    for parameter, sql in _PARAMETER.findall(signature[2] or ""):
        element = sql.removesuffix("[]")
        if element not in _PYTHON:
            raise ProcedureError(f"{name}: {parameter} has the type {sql}, for which nothing is declared")
        python = f"{_PYTHON[element]} | None"
        parameters[parameter] = python if element == sql else f"Sequence[{python}] | None"
    sentence = " ".join(purpose[1].replace("\n--", " ").split())
    return Procedure(name, sentence, parameters, "STABLE" in signature[3].split())
