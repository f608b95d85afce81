"""What processes wrote that they should not have."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_EXCERPT_LINES = 12
_AT_ITS_END = re.compile(
    r"the client is closed before the service has confirmed that \d+ messages? .* they may come again"
)


def middleware_complaints(log: Path) -> Iterator[str]:
    """Tracebacks and lines that are not the middleware's own: warnings of Python, of asyncio."""
    foreign: list[str] = []
    for line in log.read_text(errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            foreign.append(line)
            continue
        if "exception" in entry or entry.get("level") in ("error", "critical"):
            yield f"{log.name}: {entry.get('event')}: {entry.get('exception', line)}"
    if foreign:
        yield f"{log.name} says: " + "\n".join(foreign[:_EXCERPT_LINES])


def client_complaints(log: Path) -> Iterator[str]:
    """What a client wrote: it should be silent, but for what a fault at its end has it say."""
    lines = log.read_text(errors="replace").splitlines()
    if said := [line for line in lines if not _AT_ITS_END.fullmatch(line)]:
        yield f"{log.name} says: " + "\n".join(said)


def warnings_of(log: Path) -> Counter[str]:
    """Counts a middleware's own warnings by event."""
    counts: Counter[str] = Counter()
    for line in log.read_text(errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if entry.get("level") == "warning":
            counts[entry["event"]] += 1
    return counts
