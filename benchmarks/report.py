"""The report: what each section measured, the audit of every run, and which targets are reached."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from telesto.benchmarks.audit import TALLY_COLUMNS, headings
from telesto.benchmarks.figures import Target, table
from telesto.benchmarks.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Part:
    """What a section contributes.

    Attributes:
        name: the section's, with what tells its parts apart.
        text: for people, in Markdown.
        targets: what the section decides.
        runs: the runs behind it, which the audit looks at.
        plain: all that was measured, of types that JSON knows.
    """

    name: str
    text: str
    targets: Sequence[Target] = ()
    runs: Sequence[Measurement] = ()
    plain: Any = None


@dataclass(slots=True)
class Report:
    """Everything that was measured, and where."""

    machine: Mapping[str, str]
    settings: Mapping[str, str]
    parts: list[Part] = field(default_factory=list)

    @property
    def runs(self) -> list[Measurement]:
        """Every run of every part."""
        return [run for part in self.parts for run in part.runs]

    @property
    def targets(self) -> list[Target]:
        """All targets that the parts decide, and that of the audit."""
        return [target for part in self.parts for target in part.targets] + [_audit_target(self.runs)]


def render(report: Report) -> str:
    """Return the whole report as text, its tables in Markdown."""
    facts = [f"{name}: {value}" for name, value in {**report.machine, **report.settings}.items()]
    sections = ["\n".join(facts), *(part.text for part in report.parts)]
    sections += [_audit_section(report.runs), _targets_section(report.targets)]
    return "\n\n".join(sections) + "\n"


def as_plain(report: Report) -> dict[str, Any]:
    """Return all that was measured, of types that JSON knows."""
    return {
        "machine": dict(report.machine),
        "settings": dict(report.settings),
        **{part.name: part.plain for part in report.parts},
        "targets": [asdict(target) for target in report.targets],
    }


def _audit_target(runs: Sequence[Measurement]) -> Target:
    bad = [run.audit for run in runs if not run.audit.clean]
    lost, twice = sum(audit.lost for audit in bad), sum(audit.duplicated for audit in bad)
    foreign = sum(audit.foreign for audit in bad)
    found = f"{lost} lost, {twice} duplicated, {foreign} foreign in {len(runs)} runs"
    return Target("audit of every run", "nothing lost or duplicated", found, not bad)


def _audit_section(runs: Sequence[Measurement]) -> str:
    audits = [run.audit for run in runs]
    errors = sum(sum(run.errors.values()) for run in runs)
    names = sorted({name for run in runs for name in run.errors})
    rows = [[f"{sum(getattr(audit, column) for audit in audits):,}" for column in TALLY_COLUMNS]]
    examples = [str(example) for audit in audits for example in audit.examples]
    text = f"Audit of {len(runs)} runs\n\n{table(headings(TALLY_COLUMNS), rows)}"
    if examples:
        text += f"\n\nMessages concerned, for example: {', '.join(examples[:10])}"
    if errors:
        text += f"\n\nRequests that failed: {errors:,} ({', '.join(names)})"
    return text


def _targets_section(targets: Sequence[Target]) -> str:
    rows = [
        [target.what, target.wanted, target.found, "yes" if target.reached else "NO"] for target in targets
    ]
    return f"Targets\n\n{table(['what', 'target', 'found', 'reached'], rows)}"
