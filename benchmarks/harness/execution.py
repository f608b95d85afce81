"""Carries an experiment out: every run that is not whole yet, each on an empty database."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol, cast

from telesto.benchmarks.harness.experiment import Experiment, Run
from telesto.benchmarks.harness.manifest import ExperimentDirectory, create_or_resume
from telesto.benchmarks.harness.one_run import OnSecond, Outcome, measure_run
from telesto.benchmarks.results.analysis import Window
from telesto.benchmarks.results.tables import Row
from telesto.benchmarks.tiers.machine import describe, source_state
from telesto.benchmarks.tiers.service import DATA_DIRECTORY, Databases, running_server


class Listener(Protocol):
    """Somebody who is told how far an experiment is."""

    def begins(self, runs: int, done: int) -> None:
        """An experiment of `runs` runs begins, of which `done` are done already."""

    def run_begins(self, run: Run) -> OnSecond:
        """A run begins; what is returned is told the seconds since its load began."""

    def run_ends(self, run: Run, result: dict[str, Any]) -> None:
        """A run is whole."""


async def carry_out(
    experiment: Experiment, path: Path, listener: Listener, server_url: str | None = None
) -> ExperimentDirectory:
    """Carry an experiment out in a directory, or what is left of it.

    `server_url` names a server of this machine on which databases may be made; without it the experiment has
    one of its own. Raises ManifestError for a directory that cannot be used.
    """
    directory = create_or_resume(path, experiment, describe)
    runs = directory.runs
    left = [run for run in runs if not directory.is_whole(run)]
    listener.begins(len(runs), len(runs) - len(left))
    if not left:
        return directory
    with nullcontext(server_url) if server_url else running_server(path) as url:
        databases = Databases(url, experiment.name, directory.seed)
        async with databases.prepared():
            for run in left:
                await _carry_out_run(directory, run, databases, listener)
    if not experiment.keep_databases and server_url is None:
        shutil.rmtree(path / DATA_DIRECTORY)
    return directory


async def _carry_out_run(
    directory: ExperimentDirectory, run: Run, databases: Databases, listener: Listener
) -> None:
    keep = directory.experiment.keep_databases
    on_second = listener.run_begins(run)
    partial = directory.begin_run(run)
    url = await databases.create(run.name)
    outcome = await measure_run(run, url, partial, on_second)
    result = result_of(run, outcome, databases.name_of(run.name) if keep else None)
    if not keep:
        await databases.drop(run.name)
    directory.finish_run(run, result)
    listener.run_ends(run, result)


def result_of(run: Run, outcome: Outcome, database: str | None) -> dict[str, Any]:
    """Return what is kept of a run beside its tables, as JSON has it."""
    return {
        "name": run.name,
        "combination": run.combination,
        "repetition": run.repetition,
        "levels": run.levels,
        "seed": run.seed,
        "settings": run.settings.model_dump(),
        "source": source_state(),
        "began_at": outcome.began_at.isoformat(),
        "database": database,
        "server": outcome.settings,
        "figures": outcome.figures.as_plain(),
        "tiers": tier_figures(outcome.tiers, run.settings.window),
        "balance": outcome.balance.as_plain(),
        "errors": outcome.errors,
        "late": outcome.late,
        "unsent": outcome.unsent,
        "redelivered": outcome.redelivered,
        "tables": outcome.tables,
    }


def tier_figures(rows: Sequence[Row], window: Window) -> dict[str, dict[str, float]]:
    """Return how many processors each tier used within the window, and its greatest memory in bytes."""
    # CPU seconds and memory of all processes of a tier, by the moment.
    samples: dict[str, dict[float, tuple[float, float]]] = {}
    for row in rows:
        since, tier, _, cpu_s, memory_bytes = cast(tuple[float, str, int, float, int], row)
        cpu_before, memory_before = samples.setdefault(tier, {}).get(since, (0.0, 0.0))
        samples[tier][since] = cpu_before + cpu_s, memory_before + memory_bytes
    figures = {}
    for tier, of_tier in samples.items():
        inside = {since: sample for since, sample in of_tier.items() if window.begin <= since <= window.end}
        counted = inside if len(inside) > 1 else of_tier
        first, last = min(counted), max(counted)
        used = (counted[last][0] - counted[first][0]) / (last - first) if last > first else 0.0
        figures[tier] = {"processors": used, "memory_bytes": max(memory for _, memory in counted.values())}
    return figures
