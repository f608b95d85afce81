"""What the documentation names must exist: links, make targets, commands, methods, error codes, settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import EnumType
from pathlib import Path

LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)(?:#[^)]*)?\)")
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
MAKE_TARGET = re.compile(r"^[`$ ]*make ([a-z][a-z-]*)", re.MULTILINE)
COMMAND = re.compile(r"(?:^[`$ ]*|`)telesto ([a-z]+)(?: ([a-z]+))?", re.MULTILINE)
METHOD = re.compile(r"\bclient\.([a-z_]+)\(")
ERROR_CODE = re.compile(r"`([A-Z]+(?:_[A-Z]+)+)`")
SETTING = re.compile(r"\bTELESTO_([A-Z][A-Z0-9_]*)\b")

Problem = str
Check = Callable[[str], Iterator[str]]


def documentation_problems(root: Path) -> list[Problem]:
    """List what the Markdown files of the repository name and does not exist.

    Args:
        root: The repository.

    Returns:
        One line for each name, beginning with the file.
    """
    checks = [
        _make_targets(root / "Makefile"),
        _commands(),
        _methods(),
        _error_codes(),
        _settings(),
    ]
    problems = []
    for page in sorted([*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("protocol/spec/*.md")]):
        text = page.read_text(encoding="utf-8")
        where = page.relative_to(root)
        problems += [
            f"{where}: the link {target} leads nowhere"
            for target in LINK.findall(text)
            if not (page.parent / target).exists()
        ]
        code = "\n".join(CODE.findall(text))
        problems += [f"{where}: {problem}" for check in checks for problem in check(code)]
    return problems


def _make_targets(makefile: Path) -> Check:
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile.read_text(encoding="utf-8"), re.MULTILINE))

    def check(code: str) -> Iterator[str]:
        for name in MAKE_TARGET.findall(code):
            if name not in targets:
                yield f"there is no target `make {name}`"

    return check


def _commands() -> Check:
    from typer.main import get_command

    from telesto.cli.common.app import build

    tree = {
        name: set(_commands_of(command)) for name, command in _commands_of(get_command(build([]))).items()
    }

    def check(code: str) -> Iterator[str]:
        for name, argument in COMMAND.findall(code):
            if name not in tree:
                yield f"there is no command `telesto {name}`"
            elif tree[name] and argument and argument not in tree[name]:
                yield f"there is no command `telesto {name} {argument}`"

    return check


def _commands_of(group: object) -> dict[str, object]:
    commands: dict[str, object] = getattr(group, "commands", {})
    return commands


def _methods() -> Check:
    from telesto.client import AsyncTelestoClient, TelestoClient

    def check(code: str) -> Iterator[str]:
        for name in METHOD.findall(code):
            for owner in (TelestoClient, AsyncTelestoClient):
                if not hasattr(owner, name):
                    yield f"{owner.__name__} has no method {name}"

    return check


def _error_codes() -> Check:
    from telesto.protocol import enums
    from telesto.protocol.errors import ErrorCode

    known = set(ErrorCode.__members__)
    for value in vars(enums).values():
        known |= set(value.__members__) if isinstance(value, EnumType) else set()

    def check(code: str) -> Iterator[str]:
        for name in ERROR_CODE.findall(code):
            if name not in known and not name.startswith("TELESTO_"):
                yield f"there is no error code {name}"

    return check


def _settings() -> Check:
    from telesto.cli.common.variables import OTHERS, PREFIX
    from telesto.middleware.common.settings import ServerSettings

    known = {name.upper() for name in ServerSettings.model_fields}
    known |= {name.removeprefix(PREFIX) for name in OTHERS}
    known |= {"SERVICE_HOST", "SERVICE_PORT", "PORT_7001_TCP"}  # links to a Kubernetes service, no settings

    def check(code: str) -> Iterator[str]:
        for name in SETTING.findall(code):
            if name not in known:
                yield f"there is no setting TELESTO_{name}"

    return check
