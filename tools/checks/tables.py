"""The tables of settings and options in the documentation, written from the code that defines them.

``python -m tools.checks.tables`` writes them; ``python -m tools.checks`` says when they are out of date. So a
description stands in one place, and a page never lacks a setting or names one that is gone.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, SecretStr

ROOT = Path(__file__).resolve().parents[2]
# A heading or the name of a setting in the source of the settings.
HEADING_OR_NAME = re.compile(r"^    # --- (.+?) -+$|^    (\w+): ", re.MULTILINE)
# An entry of a docstring's list of attributes.
ATTRIBUTE = re.compile(r"^    (\w+): (.+?)(?=\n    \w+: |\Z)", re.MULTILINE | re.DOTALL)


def table_problems(root: Path) -> list[str]:
    """List the pages whose tables are not what the code says."""
    return [
        f"{page}: the table of {name} is out of date; run python -m tools.checks.tables"
        for page, name, table in _tables()
        if _with_table(root / page, name, table) != (root / page).read_text(encoding="utf-8")
    ]


def write_tables(root: Path) -> None:
    """Write the tables into their pages."""
    for page, name, table in _tables():
        (root / page).write_text(_with_table(root / page, name, table), encoding="utf-8")


def _tables() -> list[tuple[str, str, str]]:
    return [
        ("docs/reference/settings.md", "settings", "".join(_settings())),
        ("docs/reference/client.md", "options", "".join(_options())),
        ("docs/how-to/benchmarks.md", "run settings", "".join(_run_settings())),
    ]


def _with_table(page: Path, name: str, table: str) -> str:
    """The text of a page with the table between its two marks."""
    text = page.read_text(encoding="utf-8")
    marks = re.compile(rf"(<!-- {name}: begin[^\n]*-->\n).*(<!-- {name}: end -->)", re.DOTALL)
    if not marks.search(text):
        raise ValueError(f"{page} has no place for the table of {name}")
    return marks.sub(lambda found: found[1] + table + found[2], text)


def _settings() -> Iterator[str]:
    from telesto.middleware.common.settings import ServerSettings

    return _table_of(ServerSettings)


def _run_settings() -> Iterator[str]:
    from telesto.benchmarks.load.settings import RunSettings

    return _table_of(RunSettings)


def _table_of(model: type[BaseModel]) -> Iterator[str]:
    """A table for each part of a model of settings."""
    fields = model.model_fields
    for heading, name in HEADING_OR_NAME.findall(inspect.getsource(model)):
        if heading:
            yield f"\n**{_capitalised(heading)}**\n\n| setting | default | meaning |\n|---|---|---|\n"
        elif name in fields:
            yield f"| `{name}` | {_shown(fields[name].default)} | {fields[name].description} |\n"
    yield "\n"


def _options() -> Iterator[str]:
    from telesto.client.options import ClientOptions

    meanings = dict(ATTRIBUTE.findall((inspect.getdoc(ClientOptions) or "").partition("Attributes:\n")[2]))
    yield "\n| option | default | meaning |\n|---|---|---|\n"
    for name, parameter in inspect.signature(ClientOptions).parameters.items():
        meaning = " ".join(meanings[name].replace("``", "`").split())
        yield f"| `{name}` | {_shown(parameter.default)} | {_capitalised(meaning)} |\n"
    yield "\n"


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _shown(value: object) -> str:
    """A default as a reader would write it in the file of settings."""
    if value is None:
        return "none"
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"`{json.dumps(value)}`"


if __name__ == "__main__":
    write_tables(ROOT)
