"""The settings of `telesto serve`: from the command line, TELESTO_* and a file; printed as a file."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr, ValidationError

from telesto.cli.common import variables
from telesto.cli.terminal import output
from telesto.cli.terminal.failures import usage_error
from telesto.db.install.url import without_password
from telesto.middleware.common.settings import ServerSettings

#: What the value of a Kubernetes service link begins with.
_LINK = re.compile(r"(tcp|udp|sctp)://")


def load_settings(config: Path | None, **options: str | int | Path | None) -> ServerSettings:
    """The settings in effect. Raises CommandError, which names the setting or the file."""
    try:
        settings = ServerSettings.load(config, **options)
    except ValidationError as error:
        raise usage_error(_wrong_settings(error, options)) from error
    except tomllib.TOMLDecodeError as error:
        raise usage_error(f"{str(config)!r} is not TOML: {error}") from error
    except OSError as error:
        raise usage_error(f"cannot read {str(config)!r}: {error.strerror}") from error
    except ValueError as error:
        raise usage_error(f"{error}; --show-config lists the settings") from error
    return settings


def has_database(settings: ServerSettings) -> bool:
    """Whether the user gave a database; otherwise the embedded one is used."""
    return "database_url" in settings.model_fields_set


def print_settings(settings: ServerSettings) -> None:
    """Print the settings as a TOML file with a comment for each; passwords are left out."""
    for name, field in type(settings).model_fields.items():
        # Without a given URL the embedded database is used; a URL in the printed file would change that.
        value = getattr(settings, name) if name != "database_url" or has_database(settings) else None
        output.print_line(f"# {field.description}")
        output.print_line(f"{name} = {_as_toml(value)}" if value is not None else f"# {name} =")
        output.print_line("")


def _as_toml(value: object) -> str:
    if isinstance(value, SecretStr):
        value = without_password(value.get_secret_value())
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)


def _wrong_settings(error: ValidationError, options: Mapping[str, object]) -> str:
    problems = [
        _wrong_setting(".".join(map(str, item["loc"])), item["msg"], item["input"], options)
        for item in error.errors()
    ]
    return "; ".join(problems)


def _wrong_setting(name: str, problem: str, value: object, options: Mapping[str, object]) -> str:
    problem = problem.removeprefix("Value error, ")
    if not name:
        return f"the settings contradict each other: {problem}"
    said = f"the setting {name}{_origin(name, options)} cannot be"
    # The value may contain a password; the problem shows it without.
    said += " used" if name.endswith("_url") else f" {value!r}"
    said += f": {problem[:1].lower()}{problem[1:]}"
    if isinstance(value, str) and _LINK.match(value):
        said += "; if Kubernetes has set it, give the pod enableServiceLinks: false"
    return said


def _origin(name: str, options: Mapping[str, object]) -> str:
    """The source of a setting, unless it is the file. Options of the command line read variables too."""
    given = options.get(name)
    for variable, value in os.environ.items():
        if variable.upper() == variables.PREFIX + name.upper() and given in (None, value):
            return f" ({variable})"
    return "" if given is None else f" (--{name.replace('_', '-')})"
