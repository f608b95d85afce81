"""The figures of the demonstration."""

from __future__ import annotations

from dataclasses import dataclass

from telesto.cli.demo.check import Verdict
from telesto.cli.demo.source import Text
from telesto.cli.terminal import output


@dataclass(frozen=True)
class Figures:
    """What was shipped, by how many processes, in what time, and what the check found."""

    text: Text
    middlewares: int
    producers: int
    readers: int
    seconds: float
    verdict: Verdict

    def as_dict(self) -> dict[str, str | int | float]:
        """The figures by name, in the order of the table."""
        verdict = self.verdict
        return {
            "file": self.text.origin,
            "lines": verdict.lines,
            "bytes": self.text.size_bytes,
            "middlewares": self.middlewares,
            "producers": self.producers,
            "readers": self.readers,
            "seconds": round(self.seconds, 2),
            "messages per second": round(verdict.lines / self.seconds),
            "lost": verdict.lost,
            "duplicated": verdict.duplicated,
            "changed": verdict.changed,
            "of unknown origin": verdict.unknown,
            "out of order": verdict.out_of_order,
        }


def report(figures: Figures, *, as_json: bool) -> None:
    """Print the figures, and in words what they show."""
    if as_json:
        named = {name.replace(" ", "_"): value for name, value in figures.as_dict().items()}
        output.print_json({**named, "passed": figures.verdict.passed})
        return
    output.print_line("")
    output.print_properties(figures.as_dict())
    output.print_line("")
    output.print_line(_conclusion(figures.verdict))


def _conclusion(verdict: Verdict) -> str:
    if not verdict.lines:
        return "The file is empty: there was nothing to ship, and nothing came out."
    if verdict.passed:
        return "Every line came out exactly once, unchanged; each producer's lines in its order."
    return "FAILED: the figures above should all be 0 from `lost` on."
