"""What a generator counts, and how it reaches the parent: as files, for a run has millions of requests."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from telesto.benchmarks.records import Record
from telesto.benchmarks.worker import Result

Workload = Literal["put", "put-read"]


@dataclass(slots=True)
class Tally:
    """What became of the requests of one generator."""

    puts: Record = field(default_factory=Record)
    takes: Record = field(default_factory=Record)
    doubtful: array[int] = field(default_factory=lambda: array("Q"))
    errors: Counter[str] = field(default_factory=Counter)


def save_tally(tally: Tally, directory: Path, prefix: str) -> Result:
    """Write the records to files; return their names and the errors."""
    doubtful = Record()
    doubtful.add_batch(tally.doubtful, 0.0, 0.0)
    files = {}
    for kind, record in (("puts", tally.puts), ("takes", tally.takes), ("doubtful", doubtful)):
        files[kind] = str(directory / f"{prefix}.{kind}")
        record.save(Path(files[kind]))
    return {"files": files, "errors": dict(tally.errors)}


def load_tally(result: Result, tally: Tally) -> None:
    """Add what a worker's result names to a tally, and remove the files."""
    files = {kind: Path(name) for kind, name in result["files"].items()}
    tally.puts.merge(Record.load(files["puts"]))
    tally.takes.merge(Record.load(files["takes"]))
    tally.doubtful.extend(Record.load(files["doubtful"]).identities)
    tally.errors.update(result["errors"])
    for path in files.values():
        path.unlink()
