"""What processes wrote that they should not have."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_EXCERPT_LINES = 12


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
    """Whatever a client wrote: it should be silent."""
    text = log.read_text(errors="replace").strip()
    if text:
        yield f"{log.name} says: {text}"


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
