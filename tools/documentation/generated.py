"""The parts of the reference that are made at each build of the site, as Markdown."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROCEDURES = ROOT / "db" / "procedures"
_FUNCTION = re.compile(
    r"^CREATE OR REPLACE FUNCTION telesto\.\w+\(\n?(.*?)\)\s*(?:RETURNS|LANGUAGE)", re.M | re.S
)
_PARAMETER = re.compile(
    r"^    (OUT |INOUT )?(\w+) (.+?),? +-- (.*(?:\n +-- (?!queue settings:).*)*)$", re.MULTILINE
)


def commands() -> str:
    """Every command with its arguments and options, as ``--help`` tells them."""
    import typer
    from typer.cli import get_docs_for_click
    from typer.main import get_command

    from telesto.cli.common.app import build

    command = get_command(build([]))
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="telesto")
    # The page has a title of its own.
    return re.sub(r"^(#+ )", r"#\1", text.partition("\n")[2], flags=re.MULTILINE).replace("<br>", " ")


def python() -> str:
    """Every public name of the client that is no exception, and of tasks, documented by its docstring."""
    from telesto import client, tasks

    groups: dict[str, list[str]] = {"Clients and handles": [], "Values": [], "Enumerations and types": []}
    for name in sorted(client.__all__):
        value = getattr(client, name)
        if name.startswith(("Async", "PROTOCOL")) or (
            inspect.isclass(value) and issubclass(value, Exception)
        ):
            continue
        module = getattr(value, "__module__", "")
        if module.startswith("telesto.client.blocking"):
            groups["Clients and handles"].append(name)
        elif module in ("telesto.client.models", "telesto.client.options", "telesto.client.queue_settings"):
            groups["Values"].append(name)
        elif name != "ERRORS":
            groups["Enumerations and types"].append(name)
    lines = []
    for title, names in groups.items():
        lines.append(f"## {title}\n")
        for name in names:
            lines.append(f"::: telesto.client.{name}")
            if title == "Clients and handles" and name != "TelestoClient":
                # Methods give them, so nobody calls the class.
                lines.append("    options: {merge_init_into_class: false}")
            lines.append("")
    lines.append("## Tasks\n")
    for name in sorted(tasks.__all__):
        lines += [f"::: telesto.tasks.{name}", ""]
    return "\n".join(lines)


def errors() -> str:
    """Every error: those of the service by their codes, then those that only the library raises."""
    from telesto import client

    spec = tomllib.loads((ROOT / "protocol" / "spec" / "telesto.toml").read_text(encoding="utf-8"))
    lines = ["## From the service\n", *_heads("code", "SQLSTATE", "exception", "class", "meaning")]
    for error in spec["error"]:
        names = f"| `{error['name']}` | TL{error['code']:03} | `{error['exception']}` | {error['class']} "
        lines.append(f"{names}| {_cell(error['doc'])} |")
    lines += ["\n## From the Python library\n", *_heads("exception", "a kind of", "class", "meaning")]
    known = {error["exception"] for error in spec["error"]} | {
        "FatalError",
        "InDoubtError",
        "RejectedError",
        "RetryableError",
        "TelestoError",
    }
    for name in sorted(set(client.__all__) - known):
        kind = getattr(client, name)
        if inspect.isclass(kind) and issubclass(kind, Exception):
            doc = (inspect.getdoc(kind) or "").partition("\nAttributes:")[0].replace("``", "`")
            parents = ", ".join(f"`{parent.__name__}`" for parent in kind.__bases__)
            error_class = getattr(kind, "error_class", None)
            own = "" if error_class is None else error_class.name
            lines.append(f"| `{name}` | {parents} | {own} | {_cell(doc)} |")
    return "\n".join(lines) + "\n"


def _heads(*names: str) -> list[str]:
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]


def procedures() -> str:
    """Every procedure that applications may call, by the head of its file and its parameters' comments."""
    grants = tomllib.loads((PROCEDURES / "grants.toml").read_text(encoding="utf-8"))
    paths = {path.stem: path for path in PROCEDURES.rglob("*.sql")}
    names = grants["role"]["telesto_application"]["execute"]
    return "\n".join(_procedure(name, paths[name].read_text(encoding="utf-8")) for name in sorted(names))


def _procedure(name: str, text: str) -> str:
    head = _head(text)
    found = _FUNCTION.search(text)
    rows = list(_rows(found[1])) if found else []
    parts = [f"### `{name}`\n", head.get("Purpose", ""), ""]
    if rows:
        parts += [*_heads("parameter", "type", "meaning"), *rows, ""]
    parts += [f"**{key}**: {head[key]}\n" for key in ("Returns", "Errors", "Locks") if key in head]
    return "\n".join(parts) + "\n"


def _head(text: str) -> dict[str, str]:
    """The parts of the comment at the head of a procedure's file, by their names."""
    parts: dict[str, str] = {}
    name = ""
    for line in text.partition("\nCREATE")[0].splitlines():
        found = re.match(r"-- ([A-Z]\w+):\s*(.*)", line)
        name = found[1] if found else name
        parts[name] = f"{parts.get(name, '')} {found[2] if found else line.lstrip('-').strip()}".strip()
    return parts


def _rows(signature: str) -> Iterator[str]:
    for out, name, kind, comment in _PARAMETER.findall(signature):
        words = _cell(re.sub(r"\n +-- ", " ", comment))
        yield f"| {'*returned:* ' if out else ''}`{name}` | `{kind}` | {words} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


#: By the names that pages use.
PARTS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "errors": errors,
    "procedures": procedures,
    "python": python,
}
