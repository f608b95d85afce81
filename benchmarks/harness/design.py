"""From an experiment to its runs: all combinations of levels, each repeated, in an order by chance."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

from telesto.benchmarks.harness.experiment import Experiment
from telesto.benchmarks.harness.settings import RunSettings


@dataclass(frozen=True, slots=True)
class Run:
    """One run.

    Attributes:
        number: its place in the order, from 1.
        combination: which combination of levels it has, from 1, in the order of the file.
        repetition: from 1.
        levels: the levels of the factors.
        settings: everything that it is told.
        seed: of its choices by chance.
    """

    number: int
    combination: int
    repetition: int
    levels: dict[str, Any]
    settings: RunSettings
    seed: int

    @property
    def name(self) -> str:
        """Names the run's directory and its database."""
        return f"{self.number:04}"


def combinations(experiment: Experiment) -> list[dict[str, Any]]:
    """Return all combinations of levels, the last factor varied first."""
    names = list(experiment.varied)
    return [dict(zip(names, levels, strict=True)) for levels in product(*experiment.varied.values())]


def runs_of(experiment: Experiment, seed: int) -> list[Run]:
    """Return the runs in their order.

    Each repetition is complete before the next begins, in an order of its own: a machine that gets slower
    during the experiment, or is busy for a while, hits all combinations.
    """
    random = Random(seed)
    chosen = list(enumerate(combinations(experiment), start=1))
    runs: list[Run] = []
    for repetition in range(1, experiment.repetitions + 1):
        order = random.sample(chosen, len(chosen))
        for combination, levels in order:
            settings = RunSettings(**experiment.settings_with(levels))
            runs.append(Run(len(runs) + 1, combination, repetition, levels, settings, random.getrandbits(31)))
    return runs
