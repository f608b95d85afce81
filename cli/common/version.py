"""`telesto version`."""

from __future__ import annotations

from telesto.cli.common.options import Json
from telesto.cli.terminal import output


def version(as_json: Json = False) -> None:
    """Print the versions of Telesto, its protocol and Python."""
    import platform

    versions = {
        "telesto": installed_version(),
        "protocol": protocol_version(),
        "python": platform.python_version(),
    }
    if as_json:
        output.print_json(versions)
    else:
        output.print_properties(versions)


def installed_version() -> str:
    """The version of the installed distribution, `unknown` when it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("telesto-mq")
    except PackageNotFoundError:
        return "unknown"


def protocol_version() -> str:
    """The version of the wire protocol, as major.minor."""
    from telesto.client import PROTOCOL_MAJOR, PROTOCOL_MINOR

    return f"{PROTOCOL_MAJOR}.{PROTOCOL_MINOR}"
