"""`telesto version`."""

from __future__ import annotations

from telesto.cli.common.options import Json
from telesto.cli.terminal import output
from telesto.version import VERSION


def version(as_json: Json = False) -> None:
    """Print the versions of Telesto, its protocol and Python."""
    import platform

    versions = {
        "telesto": VERSION,
        "protocol": protocol_version(),
        "python": platform.python_version(),
    }
    if as_json:
        output.print_json(versions)
    else:
        output.print_properties(versions)


def protocol_version() -> str:
    """The version of the wire protocol, as major.minor."""
    from telesto.client import PROTOCOL_MAJOR, PROTOCOL_MINOR

    return f"{PROTOCOL_MAJOR}.{PROTOCOL_MINOR}"
