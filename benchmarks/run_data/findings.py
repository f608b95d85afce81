"""What is to be said of the runs of an experiment, whatever the report is about."""

from __future__ import annotations

from telesto.benchmarks.pages.page import Finding
from telesto.benchmarks.run_data.runs import Runs, told


def findings_on(runs: Runs, *, named: bool = False) -> list[Finding]:
    """Whether runs are missing, were not clean, or stand alone; `named` says of which experiment."""
    where = f"{runs.experiment.name}: " if named else ""
    findings = []
    if runs.unclean:
        findings.append(
            Finding(
                "bad",
                f"{where}the audit of runs {told(runs.unclean)} was not clean: figures of a failing service.",
            )
        )
    if runs.partial:
        findings.append(
            Finding(
                "note",
                f"{where}{len(runs.missing)} runs are missing ({told(runs.missing)}): a part of the "
                "experiment.",
            )
        )
    if any(len(repeated) == 1 for repeated in runs.repetitions().values()):
        findings.append(
            Finding("note", f"{where}what was run once has no interval: chance is not told from effect.")
        )
    failed = {run.name: sum(runs.results[run.name]["errors"].values()) for run in runs.whole}
    if any(failed.values()):
        names = [name for name, count in failed.items() if count]
        findings.append(
            Finding("note", f"{where}{sum(failed.values()):,} failed requests in runs {told(names)}.")
        )
    return findings


def origin_of(runs: Runs) -> list[str]:
    """From where the figures are: experiment, commit, machine, versions, settings."""
    source, machine = runs.origin.get("source", {}), runs.origin.get("machine", {})
    changed = ", changed" if source.get("changed") else ""
    commit = str(source.get("commit") or "unknown")[:12]
    settings = ", ".join(f"{name} = {value}" for name, value in runs.experiment.settings.items())
    return [
        f"{runs.experiment.name}: {len(runs.whole)} runs of commit {commit}{changed}; "
        f"{settings or 'all as by default'}.",
        "Machine: " + ", ".join(f"{name} {value}" for name, value in machine.items()) + ".",
        *([f"Hypothesis: {runs.experiment.hypothesis}"] if runs.experiment.hypothesis else []),
    ]
