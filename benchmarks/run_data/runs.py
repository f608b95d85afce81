"""The runs of an experiment (`telesto bench run`): which are complete, their results, their tables.

`open_runs` needs no Spark and reads small files only; `Runs.table` gives a table of all complete runs as a
data frame, with the column `run`. `findings_on` and `origin_of` are common to all reports.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from telesto.benchmarks.harness.experiment import Experiment, Run
from telesto.benchmarks.harness.manifest import (
    MANIFEST,
    RUN_FILE,
    ExperimentDirectory,
    ManifestError,
    open_directory,
)
from telesto.benchmarks.pages.page import Finding
from telesto.benchmarks.results.tables import SCHEMAS
from telesto.benchmarks.spark.errors import RunsError

NAMES_SHOWN: Final = 10
"""An error names at most this many runs or columns."""
RESULT_KEYS: Final = ("settings", "figures", "tiers", "balance", "errors", "late", "unsent", "tables")
"""The keys that run.json must have."""
BALANCE_KEYS: Final = ("clean", "put", "lost", "duplicated", "out_of_order", "foreign")
AGAIN: Final = "run the experiment again with this release"
_SPECIAL: Final = re.compile(r"([\\*?\[\]{}])")
"""Characters of a path that Spark would read as a pattern."""


@dataclass(frozen=True, slots=True)
class Runs:
    """An experiment and its runs.

    Attributes:
        origin: the rest of the manifest: `machine`, `versions`, `source` (commit), `created`.
        complete: the complete runs, in the order in which they ran; at least one.
        missing: names of the others.
        results: the content of `run.json` of each complete run, by its name.
    """

    directory: ExperimentDirectory
    origin: Mapping[str, Any]
    complete: tuple[Run, ...]
    missing: tuple[str, ...]
    results: Mapping[str, Mapping[str, Any]]

    @property
    def experiment(self) -> Experiment:
        """The experiment's definition."""
        return self.directory.experiment

    @property
    def unclean(self) -> tuple[str, ...]:
        """Names of complete runs whose audit was not clean: their figures show a failing service."""
        return tuple(run.name for run in self.complete if not self.results[run.name]["balance"]["clean"])

    def repetitions(self) -> dict[int, tuple[Run, ...]]:
        """The complete runs of each combination of levels, by its number."""
        found: dict[int, list[Run]] = {}
        for run in sorted(self.complete, key=lambda each: (each.combination, each.repetition)):
            found.setdefault(run.combination, []).append(run)
        return {combination: tuple(runs) for combination, runs in found.items()}

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        """Read a table of all complete runs: `run` (its name), then the columns in docs/how-to/benchmarks.md.

        It includes warm-up and cool-down (`timeline.counted` cuts them off). Raises RunsError if a run lacks
        the table or a column.
        """
        files = [self.directory.run_directory(run) / f"{name}.parquet" for run in self.complete]
        for file in files:
            _require_columns(file, SCHEMAS[name])
        paths = [_SPECIAL.sub(r"\\\1", f"{file.resolve()}") for file in files]
        folders = F.split(F.col("_metadata.file_path"), "/")
        columns = [F.col(column) for column in SCHEMAS[name].names]
        return spark.read.parquet(*paths).select(F.element_at(folders, -2).alias("run"), *columns)


def open_runs(path: Path) -> Runs:
    """Find the complete runs of an experiment.

    Raises RunsError if there is no such directory, its format is unknown, no run is complete, or a file
    cannot be read.
    """
    if not path.is_dir():
        raise RunsError(f"there is no directory {path}; `telesto bench run ... --out {path}` would make one")
    try:
        directory = open_directory(path)
        origin = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except ManifestError as error:
        raise RunsError(str(error)) from error
    except (OSError, ValueError) as error:
        raise RunsError(f"the experiment cannot be read: {error}") from error
    complete = tuple(run for run in directory.runs if directory.is_complete(run))
    missing = tuple(run.name for run in directory.runs if not directory.is_complete(run))
    if not complete:
        raise RunsError(
            f"{path}: none of the {len(missing)} runs is complete (missing: {told(missing)}); "
            "repeat the same `telesto bench run` to complete them"
        )
    return Runs(directory, origin, complete, missing, {run.name: _result(directory, run) for run in complete})


def told(names: Sequence[str]) -> str:
    """List names, the first few of many."""
    rest = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _result(directory: ExperimentDirectory, run: Run) -> Mapping[str, Any]:
    file = directory.run_directory(run) / RUN_FILE
    try:
        result = directory.result_of(run)
    except (OSError, ValueError) as error:
        raise RunsError(f"{file} cannot be read: {error}") from error
    lacking = [key for key in RESULT_KEYS if key not in result] if isinstance(result, dict) else RESULT_KEYS
    if not lacking:
        lacking = [f"balance.{key}" for key in BALANCE_KEYS if key not in result["balance"]]
    if lacking:
        raise RunsError(f"{file} has no {told(lacking)}: it was written by another release; {AGAIN}")
    return result


def _require_columns(file: Path, expected: pa.Schema) -> None:
    try:
        found = pq.read_schema(file)
    except FileNotFoundError:
        raise RunsError(f"there is no {file}: the run is damaged, or written by another release") from None
    except (OSError, pa.ArrowInvalid) as error:
        raise RunsError(f"{file} cannot be read: {error}") from error
    lacking = [
        column.name
        for column in expected
        if column.name not in found.names or found.field(column.name).type != column.type
    ]
    if lacking:
        raise RunsError(f"{file} lacks {told(lacking)}, or has another type than this release reads; {AGAIN}")


def incomplete(runs: Runs, where: str = "") -> list[Finding]:
    """Findings on unclean audits and on missing runs."""
    findings = []
    if runs.unclean:
        findings.append(
            Finding(
                "bad",
                f"{where}The audit of {told(runs.unclean)} is NOT CLEAN: messages were lost, duplicated, "
                "out of order or foreign. The figures show a failing service.",
            )
        )
    if runs.missing:
        findings.append(
            Finding(
                "note",
                f"{where}This report is PARTIAL: {len(runs.complete)} of {len(runs.directory.runs)} runs are "
                f"complete; missing are {told(runs.missing)}. Repeat the same `telesto bench run` to "
                "complete them.",
            )
        )
    return findings


def findings_on(runs: Runs, *, named: bool = False) -> list[Finding]:
    """Findings on missing, unclean and unrepeated runs; `named` adds the name of the experiment."""
    where = f"{runs.experiment.name}: " if named else ""
    findings = incomplete(runs, where)
    if any(len(repeated) == 1 for repeated in runs.repetitions().values()):
        findings.append(
            Finding(
                "note",
                f"{where}a combination with a single run has no interval, so effects and random variation "
                "look alike.",
            )
        )
    failed = {run.name: sum(runs.results[run.name]["errors"].values()) for run in runs.complete}
    if any(failed.values()):
        names = [name for name, count in failed.items() if count]
        findings.append(
            Finding("note", f"{where}{sum(failed.values()):,} failed requests in runs {told(names)}.")
        )
    return findings


def origin_of(runs: Runs) -> list[str]:
    """The origin of the figures: experiment, commit, machine, versions, settings."""
    source, machine = runs.origin.get("source", {}), runs.origin.get("machine", {})
    changed = ", changed" if source.get("changed") else ""
    commit = str(source.get("commit") or "unknown")[:12]
    settings = ", ".join(f"{name} = {value}" for name, value in runs.experiment.settings.items())
    return [
        f"{runs.experiment.name}: {len(runs.complete)} runs of commit {commit}{changed}; "
        f"{settings or 'all as by default'}.",
        "Machine: " + ", ".join(f"{name} {value}" for name, value in machine.items()) + ".",
        *([f"Hypothesis: {runs.experiment.hypothesis}"] if runs.experiment.hypothesis else []),
    ]
