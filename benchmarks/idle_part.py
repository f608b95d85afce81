"""The part of the report about idle connections."""

from dataclasses import asdict
from typing import Final

from telesto.benchmarks.figures import Target
from telesto.benchmarks.idle import Idle
from telesto.benchmarks.report import Part

RESIDENT_MIB_MAX: Final = 150

_MIB: Final = 2**20


def idle_part(found: Idle) -> Part:
    """Return the part; fewer connections than wanted do not reach the target."""
    return Part("idle", _text(found), [_target(found)], plain=asdict(found))


def _target(found: Idle) -> Target:
    resident = found.bytes_with / _MIB
    what = f"resident memory of a middleware with {found.connections:,} idle connections"
    reached = resident <= RESIDENT_MIB_MAX and found.connections >= found.wanted
    return Target(what, f"at most {RESIDENT_MIB_MAX} MiB", f"{resident:.0f} MiB", reached)


def _text(found: Idle) -> str:
    text = (
        f"Idle connections: {found.connections:,}; resident memory of the middleware "
        f"{found.bytes_before / _MIB:.0f} MiB before, {found.bytes_with / _MIB:.0f} MiB with them"
    )
    if found.connections < found.wanted:
        text += (
            f". {found.wanted:,} need more than {found.open_files:,} open files: raise the limit (ulimit -n)"
        )
    return text
