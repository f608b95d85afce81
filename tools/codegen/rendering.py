"""Fills the templates; the result is what stands in the generated files, byte for byte."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tools.codegen.decoding import decoder_body, list_reader_body
from tools.codegen.document import (
    cell,
    hexadecimal,
    linked,
    number_fate,
    places,
    record_fate,
    route,
    transitions,
)
from tools.codegen.encoding import encoder_body, list_writer_body
from tools.codegen.examples import Example
from tools.codegen.model import Packet, QueueSetting, Spec, Struct
from tools.codegen.naming import enum_table, python_type, snake
from tools.codegen.procedures import MARK as PROCEDURES_MARK
from tools.codegen.procedures import Procedure
from tools.codegen.setting_vectors import setting_vectors
from tools.codegen.sql_settings import call, parameters, rows
from tools.codegen.structs import StructTable

#: What the first line of every generated file says.
MARK = 'Generated from protocol/spec/telesto.toml by "python -m tools.codegen"; do not edit.'

#: Line length of the repository.
_WIDTH = 110
_TEMPLATES = Path(__file__).parent / "templates"
_PRIMITIVES = (
    "BOOLS",
    "DECODE_ERRORS",
    "ENCODE_ERRORS",
    "Packers",
    "Unpackers",
    "check_end",
    "read_byte_strings",
    "read_strings",
    "read_tags",
    "skip_tags",
    "write_byte_strings",
    "write_strings",
    "write_tagged",
)
_BRANCHES = {
    "REJECTED": "RejectedError",
    "RETRYABLE": "RetryableError",
    "IN_DOUBT": "InDoubtError",
    "FATAL": "FatalError",
}
_CONSTANTS = (
    "DEFAULT_PORT",
    "MAGIC",
    "MAX_FRAME_DEFAULT",
    "MAX_FRAME_LEAST",
    "MAX_FRAME_UNIDENTIFIED",
    "PACKETS",
    "PROTOCOL_MAJOR",
    "PROTOCOL_MINOR",
    "REQUESTS",
)


class RenderError(Exception):
    """The generated code could not be formatted."""


def render(spec: Spec, takeover: Sequence[Example] = ()) -> dict[str, str]:
    """Returns the content of each generated file by its path from the root of the repository.

    ``takeover`` are the frames that the document shows.
    """
    environment = _environment()
    return {
        "protocol/enums.py": _python(environment, "enums.py", spec=spec),
        "protocol/error_codes.py": _python(environment, "error_codes.py", spec=spec),
        "protocol/packets.py": _python(environment, "packets.py", **_codecs(spec)),
        "protocol/queue_settings.py": _python(environment, "queue_settings.py", spec=spec),
        "protocol/vectors/queue_settings.json": setting_vectors(spec),
        "middleware/security/needed_rights.py": _python(environment, "needed_rights.py", spec=spec),
        "client/queue_settings.py": _python(environment, "client_queue_settings.py", spec=spec),
        "docs/reference/protocol.md": environment.get_template("protocol.md.jinja").render(
            spec=spec,
            transitions=transitions(spec),
            takeover=[
                (connection, list(examples))
                for connection, examples in groupby(takeover, key=lambda example: example.connection)
            ],
        ),
    }


def render_parts(spec: Spec) -> dict[str, list[str]]:
    """Returns the generated parts of each file that is written by hand otherwise."""
    environment = _environment()
    settings = spec.queue_settings
    parts = {
        "docs/reference/client.md": [environment.get_template("client.md.jinja").render(spec=spec)],
        "db/procedures/queues/set_queue_settings.sql": [
            environment.get_template("set_queue_settings.sql.jinja").render(spec=spec)
        ],
        "db/procedures/sql_queues/setting_columns.sql": [parameters(settings, default=False), rows(settings)],
    }
    for name in ("create_queue", "declare_queue", "update_queue"):
        last = name != "declare_queue"
        parts[f"db/procedures/sql_queues/{name}.sql"] = [parameters(settings, last=last), call(settings)]
    return parts


def render_calls(procedures: Sequence[Procedure]) -> str:
    """Returns the module with the calls of these procedures."""
    return _python(_environment(), "calls.py", mark=PROCEDURES_MARK, procedures=procedures)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.globals["mark"] = MARK
    environment.filters["wrapped"] = _wrapped
    environment.filters["quoted"] = _quoted
    environment.filters["cell"] = cell
    environment.filters["hex"] = hexadecimal
    environment.filters["linked"] = linked
    environment.filters["route"] = route
    environment.filters["places"] = places
    environment.filters["number_fate"] = number_fate
    environment.filters["record_fate"] = record_fate
    environment.filters["branch"] = _BRANCHES.__getitem__
    environment.filters["python"] = python_type
    environment.filters["client_type"] = _client_type
    environment.filters["given_type"] = _given_type
    environment.filters["client_default"] = _client_default
    environment.filters["snake"] = snake
    environment.filters["default_value"] = _default_value
    environment.filters["begun_small"] = _begun_small
    environment.filters["for_client"] = _for_client
    environment.filters["enum_table"] = enum_table
    return environment


def _wrapped(text: str, prefix: str, used: int = 0) -> str:
    """Breaks a text into lines that begin with the prefix; ``used`` is what the first has before it."""
    lines = textwrap.wrap(" " * used + text, _WIDTH - len(prefix), drop_whitespace=True)
    return f"\n{prefix}".join(lines).strip()


def _default_value(setting: QueueSetting) -> str:
    """The Python expression of what a queue has unless it is given."""
    if setting.type.kind == "enum":
        return f"{setting.type.name}.{setting.default}"
    return f"{setting.default:_}" if type(setting.default) is int else str(setting.default)


def _client_default(setting: QueueSetting) -> str:
    """The Python expression of what a queue has unless it is given, durations in seconds."""
    seconds = setting.unit == "ms" and type(setting.default) is int
    return f"{int(str(setting.default)) / 1000:_}" if seconds else _default_value(setting)


def _client_type(setting: QueueSetting) -> str:
    """The type of a setting as the client has it, which names queues and has durations in seconds."""
    names = {"queue": "str | int", "ms": "float"}
    return names.get(setting.unit) or python_type(setting.type)


def _given_type(setting: QueueSetting) -> str:
    """The type of a setting as an application gives it to the client."""
    names = {"queue": "QueueHandle | str | int", "ms": "Duration"}
    return names.get(setting.unit) or python_type(setting.type)


def _for_client(text: str, spec: Spec) -> str:
    """A text of the protocol as the client has it: errors are exceptions, settings have its names."""
    names = {error.name: error.exception for error in spec.errors}
    names |= {setting.name: setting.client_name for setting in spec.queue_settings}
    return re.sub(r"\b\w+\b", lambda name: names.get(name[0], name[0]), text)


def _begun_small(text: str) -> str:
    """A text to stand behind a name and a colon."""
    return text[:1].lower() + text[1:]


def _quoted(text: str) -> str:
    """A string literal for a text, in pieces that fit their lines."""
    pieces = textwrap.wrap(text, _WIDTH - 20, drop_whitespace=False)
    return " ".join(json.dumps(piece, ensure_ascii=False) for piece in pieces)


def _codecs(spec: Spec) -> dict[str, Any]:
    """What the template of the packets needs."""
    table = StructTable()
    flat = [packet for packet in spec.packets if not packet.rare]
    flat_structs = _structs_of(spec, flat)
    listed = _listed_structs(spec, [*flat_structs, *flat])
    codecs: dict[str, Any] = {
        "decoders": {packet.name: decoder_body(spec, table, packet) for packet in flat},
        "encoders": {packet.name: encoder_body(spec, table, packet) for packet in flat},
        "list_readers": {struct.name: list_reader_body(spec, table, struct) for struct in listed},
        "list_writers": {struct.name: list_writer_body(spec, table, struct) for struct in listed},
    }
    used = {field.type.innermost for struct in (*flat_structs, *flat) for field in struct.all_fields}
    names = [enum.name for enum in spec.enums] + [struct.name for struct in (*spec.structs, *spec.packets)]
    return {
        **codecs,
        "spec": spec,
        "structs": table,
        "listed_structs": listed,
        "flat_structs": [*flat_structs, *flat],
        "enum_imports": sorted(["ConnectionState", *(enum.name for enum in spec.enums)]),
        "used_enums": [enum.name for enum in spec.enums if enum.name in used],
        "primitives": _used_primitives(codecs),
        "exports": [*_CONSTANTS, *sorted([*names, "ConnectionState", "Packet", "RequestInfo"])],
    }


def _structs_of(spec: Spec, packets: list[Packet]) -> list[Struct]:
    """The structs that these packets contain, in the order of their definition."""
    waiting: list[Struct] = list(packets)
    found: set[str] = set()
    while waiting:
        inner = {field.type.innermost for field in waiting.pop().all_fields}
        for struct in spec.structs:
            if struct.name in inner - found:
                found.add(struct.name)
                waiting.append(struct)
    return [struct for struct in spec.structs if struct.name in found]


def _listed_structs(spec: Spec, owners: list[Struct]) -> list[Struct]:
    """The structs that some list in these has, in the order of their definition."""
    listed = {
        str(field.type.inner) for owner in owners for field in owner.all_fields if field.type.kind == "list"
    }
    return [struct for struct in spec.structs if struct.name in listed]


def _used_primitives(codecs: dict[str, Any]) -> list[str]:
    """The names to import from telesto.protocol.primitives."""
    text = "\n".join(line for bodies in codecs.values() for lines in bodies.values() for line in lines)
    always = ("DECODE_ERRORS", "ENCODE_ERRORS", "Packers", "Unpackers")
    return [name for name in _PRIMITIVES if name in always or f"{name}(" in text or f"{name}[" in text]


def _python(environment: Environment, name: str, **values: Any) -> str:
    return _formatted(environment.get_template(f"{name}.jinja").render(**values), name)


def _formatted(source: str, name: str) -> str:
    """Puts Python source into the repository's style."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", f"protocol/{name}", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RenderError(f"{name}: {done.stderr.strip()}")
    return done.stdout
