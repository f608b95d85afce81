"""An experiment: a TOML file of factors and fixed settings, and the runs that follow from it.

The runs are all combinations of levels, each repeated, in random order.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from telesto.benchmarks.load.settings import RunSettings

NAME_PATTERN: Final = r"^[a-z0-9][a-z0-9-]*$"
RUNS_MAX: Final = 10_000
CASE: Final = "case"
_UNITS: Final = ("_s", "_ms", "_bytes")


class BadExperimentError(Exception):
    """An experiment cannot be read; the message names the file, the place and the problem."""


class Experiment(BaseModel):
    """An experiment: all combinations of cases and of the factors' levels, each repeated."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        pattern=NAME_PATTERN, max_length=30, description="A short name of lower-case letters and digits."
    )
    title: str = Field(description="The subject, in a few words.")
    description: str = Field("", description="What is measured, and why.")
    hypothesis: str = Field("", description="The expected result.")
    repetitions: int = Field(1, ge=1, le=1000, description="Runs of each combination.")
    seed: int | None = Field(
        None, ge=0, description="Seed of the order of the runs. By default it is chosen, and recorded."
    )
    keep_databases: bool = Field(
        True, description="Keep each run's database, with the history of its messages."
    )
    settings: dict[str, Any] = Field(default_factory=dict, description="Settings of all runs.")
    cases: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Named groups of settings; each run uses one of them."
    )
    factors: dict[str, list[Any]] = Field(
        default_factory=dict,
        description="The levels of each factor. Those of `case` are all cases by default.",
    )
    against: list[dict[str, Any]] = Field(
        default_factory=list,
        description="Levels to compare with: each combination against the one with these levels instead.",
    )

    @field_validator("factors")
    @classmethod
    def _check_levels(cls, factors: dict[str, list[Any]]) -> dict[str, list[Any]]:
        for name, levels in factors.items():
            if not levels:
                raise ValueError(f"{name} has no levels")
            if len({repr(level) for level in levels}) < len(levels):
                raise ValueError(f"{name} has duplicate levels")
        return factors

    @property
    def varied(self) -> dict[str, list[Any]]:
        """The levels of everything that varies; the cases come first."""
        return {CASE: list(self.cases)} | self.factors if self.cases else self.factors

    def settings_with(self, levels: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a run with these levels."""
        of_case = self.cases[levels[CASE]] if CASE in levels else {}
        return self.settings | of_case | {name: level for name, level in levels.items() if name != CASE}


def ready_experiments() -> dict[str, Path]:
    """Return the files of the experiments that Telesto includes, by name."""
    folder = Path(str(files("telesto.benchmarks.harness") / "experiments"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_experiment(
    source: str,
    assignments: Sequence[str] = (),
    repetitions: int | None = None,
    *,
    keep_databases: bool | None = None,
) -> Experiment:
    """Read an experiment from a file or by its name, and apply the options of the command line.

    Raises BadExperimentError.
    """
    path = _find(source)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadExperimentError(f"{source}: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise BadExperimentError(f"{source} is not valid TOML: {error}") from error
    for assignment in assignments:
        _assign(values, assignment)
    if repetitions is not None:
        values["repetitions"] = repetitions
    if keep_databases is not None:
        values["keep_databases"] = keep_databases
    return check_experiment(values, source)


def check_experiment(values: Mapping[str, Any], source: str) -> Experiment:
    """Check an experiment and every run of it; raises BadExperimentError."""
    try:
        experiment = Experiment(**values)
    except ValidationError as error:
        raise BadExperimentError(_told(source, error)) from error
    of_cases = {name for settings in experiment.cases.values() for name in settings}
    both = sorted(set(experiment.factors) & (set(experiment.settings) | of_cases))
    if both:
        raise BadExperimentError(f"{source}: {', '.join(both)} cannot be both a setting and a factor")
    _check_levels_named(experiment, source)
    levels = combinations(experiment)
    if len(levels) * experiment.repetitions > RUNS_MAX:
        count = len(levels) * experiment.repetitions
        raise BadExperimentError(f"{source}: {count:,} runs exceed the maximum of {RUNS_MAX:,}")
    for chosen in levels:
        try:
            RunSettings(**experiment.settings_with(chosen))
        except ValidationError as error:
            at = ", ".join(f"{name} = {value}" for name, value in chosen.items())
            raise BadExperimentError(_told(f"{source}{f' with {at}' if at else ''}", error)) from error
    return experiment


def _check_levels_named(experiment: Experiment, source: str) -> None:
    """Check the names of cases and levels."""
    for case in experiment.varied.get(CASE, []):
        if case not in experiment.cases:
            raise BadExperimentError(
                f"{source}: there is no case {case!r}; there are {', '.join(experiment.cases) or 'none'}"
            )
    for levels in experiment.against:
        for name, level in levels.items():
            if name not in experiment.varied:
                raise BadExperimentError(f"{source}: against: {name} is not varied")
            if name == CASE and level not in experiment.cases:
                raise BadExperimentError(f"{source}: against: there is no case {level!r}")


def _find(source: str) -> Path:
    ready = ready_experiments()
    if source in ready and not Path(source).exists():
        return ready[source]
    if not Path(source).is_file():
        raise BadExperimentError(
            f"there is no file {source} and no built-in experiment of that name, but: {', '.join(ready)}"
        )
    return Path(source)


def _assign(values: dict[str, Any], assignment: str) -> None:
    """Apply `name=value`: a list makes a factor of the setting, anything else sets it."""
    name, equals, text = assignment.partition("=")
    if not equals or not name:
        raise BadExperimentError(f"--set {assignment}: write name=value, or name=[value, value] for levels")
    name = _full_name(name.strip())
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    factors, settings = values.setdefault("factors", {}), values.setdefault("settings", {})
    for place in (factors, settings, *values.get("cases", {}).values()):
        place.pop(name, None)
    if isinstance(value, list):
        factors[name] = value
    elif name == CASE:
        factors[name] = [value]
    else:
        settings[name] = value
    # A factor that is now fixed has no levels to compare with.
    if name not in factors and name != CASE:
        values["against"] = [levels for levels in values.get("against", []) if name not in levels]


def _full_name(name: str) -> str:
    """Complete a name that was written without its unit."""
    fields = RunSettings.model_fields
    if name in fields or name == CASE:
        return name
    found = [name + unit for unit in _UNITS if name + unit in fields]
    if not found:
        raise BadExperimentError(
            f"--set {name}: there is no such setting; there are {', '.join(sorted(fields))}"
        )
    return found[0]


def _told(source: str, error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        place = ".".join(str(part) for part in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        given = "" if problem["type"] in ("missing", "value_error") else f" (given: {problem['input']!r})"
        lines.append(f"{source}: {place + ': ' if place else ''}{message}{given}")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Run:
    """One run.

    Attributes:
        number: its place in the order, from 1.
        combination: its combination of levels, from 1, in the order of the file.
        repetition: from 1.
        seed: of its random choices.
    """

    number: int
    combination: int
    repetition: int
    levels: dict[str, Any]
    settings: RunSettings
    seed: int

    @property
    def name(self) -> str:
        """The name of the run's directory and database."""
        return f"{self.number:04}"

    def as_plain(self) -> dict[str, Any]:
        """The fields that identify the run in files, as JSON."""
        names = ("name", "combination", "repetition", "levels", "seed")
        return {name: getattr(self, name) for name in names}


def combinations(experiment: Experiment) -> list[dict[str, Any]]:
    """Return all combinations of levels; the last factor varies fastest."""
    names = list(experiment.varied)
    return [dict(zip(names, levels, strict=True)) for levels in product(*experiment.varied.values())]


def runs_of(experiment: Experiment, seed: int) -> list[Run]:
    """Return the runs in their order.

    Each repetition is complete before the next begins, and has an order of its own. So a machine that slows
    down, or is busy for a while, affects all combinations.
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
