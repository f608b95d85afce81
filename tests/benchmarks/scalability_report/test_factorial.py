"""The report on a 2^k r design, as a whole and with what can be wrong about its runs."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from scaled_runs import scaled
from telesto.benchmarks.harness.experiment import Run
from telesto.benchmarks.pages.page import Report, write_report
from telesto.benchmarks.run_data.runs import open_runs
from telesto.benchmarks.scalability_report.factorial import STEPS_OF_REPORT, design_of, factorial_report
from telesto.benchmarks.spark.errors import RunsError

FACTORS = {"clients": [4, 8], "delivery": ["once", "fast"], "middlewares": [1]}
NOISE = {1: -3.0, 2: 1.0, 3: 2.0}


def rate(run: Run) -> float:
    """500 in the mean, 100 by clients, 20 by delivery, and 10 by both together."""
    clients = -1 if run.levels["clients"] == 4 else 1
    delivery = -1 if run.levels["delivery"] == "once" else 1
    return 500 + 100 * clients + 20 * delivery + 10 * clients * delivery + NOISE[run.repetition]


def effects(report: Report, key: str = "throughput") -> dict[str, tuple[object, ...]]:
    figures = next(each.figures for each in report.sections if each.figures.key == f"{key}-effects")
    return {str(row[0]): row for row in figures.rows}


def texts(report: Report) -> str:
    return " ".join(finding.text for finding in report.findings)


@pytest.fixture(scope="module")
def report(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Report:
    path = tmp_path_factory.mktemp("runs") / "factorial"
    scaled(path, rate, repetitions=3, factors=FACTORS)
    steps: list[int] = []
    report = factorial_report(spark, path, step=lambda: steps.append(1))
    assert len(steps) == STEPS_OF_REPORT
    return report


class TestReport:
    def test_effects(self, report: Report) -> None:
        found = effects(report)
        assert found["mean"][1] == pytest.approx(500)
        assert found["clients"][1] == pytest.approx(100)
        assert found["delivery"][1] == pytest.approx(20)
        assert found["clients × delivery"][1] == pytest.approx(10)
        assert found["clients"][5] == "yes"
        shares = [row[4] for row in found.values() if row[4] is not None]
        assert sum(shares) == pytest.approx(1)  # type: ignore[arg-type]

    def test_residuals_are_looked_at(self, report: Report) -> None:
        part = next(each for each in report.sections if each.figures.key == "throughput-residuals")
        assert sorted({round(value) for value in part.figures.column("residual")}) == [-3, 1, 2]  # type: ignore[arg-type]
        assert "Shapiro-Wilk" in part.caption

    def test_page(self, report: Report, tmp_path: Path) -> None:
        write_report(report, tmp_path / "out")
        assert "clients × delivery" in (tmp_path / "out" / "index.html").read_text()
        assert "Throughput: most of the variation is explained by clients" in report.as_text()

    def test_measures(self, report: Report) -> None:
        keys = {each.figures.key for each in report.sections}
        assert {
            "throughput-effects",
            "response-effects",
            "p99-effects",
            "processors-effects",
            "design",
        } <= keys


class TestVariants:
    def test_one_repetition(self, spark: SparkSession, tmp_path: Path) -> None:
        scaled(tmp_path / "out", rate, factors=FACTORS)
        report = factorial_report(spark, tmp_path / "out")
        assert effects(report)["clients"][2:4] == (None, None)
        assert "a combination with a single run has no interval" in texts(report)
        assert not any("residuals" in each.figures.key for each in report.sections)

    def test_logarithms(self, spark: SparkSession, tmp_path: Path) -> None:
        def multiplied(run: Run) -> float:
            return (
                100.0
                * (10 if run.levels["clients"] == 8 else 1)
                * (2 if run.levels["delivery"] == "fast" else 1)
            )

        scaled(tmp_path / "out", multiplied, repetitions=2, factors=FACTORS)
        assert "effects may multiply" in texts(factorial_report(spark, tmp_path / "out"))
        report = factorial_report(spark, tmp_path / "out", logarithms=True)
        assert effects(report)["clients"][1] == pytest.approx(0.5)
        assert effects(report)["clients × delivery"][1] == pytest.approx(0, abs=1e-9)

    def test_a_broken_off_repetition_is_left_out(self, spark: SparkSession, tmp_path: Path) -> None:
        scaled(tmp_path / "out", rate, repetitions=3, factors=FACTORS, skipped=lambda run: run.number == 12)
        report = factorial_report(spark, tmp_path / "out")
        assert "equally many repetitions: runs 0009, 0010, 0011 are left out" in texts(report)
        assert "missing are 0012" in texts(report)
        assert effects(report)["clients"][1] == pytest.approx(100)


@pytest.mark.parametrize(
    ("factors", "skipped", "reason"),
    [
        ({"clients": [2, 4, 8]}, lambda _: False, "clients has more than two levels"),
        ({"clients": [2]}, lambda _: False, "no factor of two levels"),
        ({}, lambda _: False, "no factor of two levels"),
        (
            {"clients": [2, 4]},
            lambda run: run.settings.clients == 4,
            "1 of 2 combinations have no complete run",
        ),
    ],
)
def test_other_designs_are_refused(
    tmp_path: Path, factors: dict[str, list[object]], skipped: Callable[[Run], bool], reason: str
) -> None:
    scaled(tmp_path / "out", lambda _: 100.0, factors=factors, skipped=skipped)
    with pytest.raises(RunsError, match=reason):
        design_of(open_runs(tmp_path / "out"))
