"""The directory of an experiment: its manifest, and a directory for each complete run.

experiment.json          the experiment, the order of the runs, the machine
runs/0001/run.json       settings, figures and audit of a run
runs/0001/*.parquet      its tables
runs/0002.partial/       a run that is not complete; it is discarded when the experiment continues
database/                PostgreSQL, one database for each run (unless they are not kept)
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import randbelow
from typing import Any, Final

from telesto.benchmarks.harness.experiment import (
    BadExperimentError,
    Experiment,
    Run,
    check_experiment,
    runs_of,
)

FORMAT: Final = 1
MANIFEST: Final = "experiment.json"
RUN_FILE: Final = "run.json"
PARTIAL: Final = ".partial"
SEEDS: Final = 2**31


class ManifestError(Exception):
    """A directory cannot be used for an experiment; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class ExperimentDirectory:
    """The directory of one experiment; `seed` is that of the order of its runs."""

    path: Path
    experiment: Experiment
    seed: int

    @property
    def runs(self) -> list[Run]:
        """All runs in their order."""
        return runs_of(self.experiment, self.seed)

    def run_directory(self, run: Run) -> Path:
        """Return the directory of a complete run."""
        return self.path / "runs" / run.name

    def is_complete(self, run: Run) -> bool:
        """Tell whether a run is complete."""
        return (self.run_directory(run) / RUN_FILE).is_file()

    def begin_run(self, run: Run) -> Path:
        """Return an empty directory for a run; files of an earlier attempt are removed."""
        partial = self._partial(run)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        return partial

    def finish_run(self, run: Run, result: Mapping[str, Any]) -> None:
        """Make a run complete, in one step."""
        partial = self._partial(run)
        write_json(partial / RUN_FILE, result)
        os.rename(partial, self.run_directory(run))

    def result_of(self, run: Run) -> dict[str, Any]:
        """Return the result of a complete run."""
        result: dict[str, Any] = json.loads((self.run_directory(run) / RUN_FILE).read_text(encoding="utf-8"))
        return result

    def _partial(self, run: Run) -> Path:
        return self.path / "runs" / f"{run.name}{PARTIAL}"


def create_or_resume(
    path: Path, experiment: Experiment, describe: Callable[[Path], Mapping[str, object]]
) -> ExperimentDirectory:
    """Begin an experiment in a new or empty directory, or continue the one that is there.

    `describe` returns the origin: machine, versions, source. Raises ManifestError if the directory belongs to
    something else.
    """
    if (path / MANIFEST).is_file():
        found = open_directory(path)
        if found.experiment.model_copy(update={"seed": experiment.seed}) != experiment or (
            experiment.seed not in (None, found.seed)
        ):
            raise ManifestError(
                f"{path} holds the experiment {found.experiment.name} with other settings; choose another "
                "directory, or give the same experiment to continue it"
            )
        return found
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ManifestError(f"{path} exists and is not the directory of an experiment")
    path.mkdir(parents=True, exist_ok=True)
    seed = experiment.seed if experiment.seed is not None else randbelow(SEEDS)
    directory = ExperimentDirectory(path, experiment, seed)
    write_json(path / MANIFEST, _manifest(directory, describe(path)))
    return directory


def open_directory(path: Path) -> ExperimentDirectory:
    """Open the directory of an experiment; raises ManifestError."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ManifestError(f"{path} is not the directory of an experiment: it has no {MANIFEST}") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ManifestError(f"{path / MANIFEST}: {error}") from error
    if not isinstance(manifest, dict) or "format" not in manifest:
        raise ManifestError(f"{path / MANIFEST} is not the manifest of an experiment")
    if manifest["format"] != FORMAT:
        raise ManifestError(f"{path} has format {manifest['format']}; this release reads {FORMAT}")
    try:
        experiment = check_experiment(manifest["experiment"], str(path / MANIFEST))
        return ExperimentDirectory(path, experiment, int(manifest["seed"]))
    except (KeyError, TypeError, ValueError, BadExperimentError) as error:
        raise ManifestError(f"{path / MANIFEST} is damaged: {error}") from error


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a file completely or not at all."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(value, indent=1, default=str) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def _manifest(directory: ExperimentDirectory, origin: Mapping[str, object]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "experiment": directory.experiment.model_dump(),
        "seed": directory.seed,
        **origin,
        "runs": [run.as_plain() for run in directory.runs],
    }
