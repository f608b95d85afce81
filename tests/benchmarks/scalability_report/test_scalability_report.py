"""The report on scalability, as a whole and with what can be wrong about its runs."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from run_directories import LOST, finish
from scaled_runs import scaled
from telesto.benchmarks.harness.experiment import Run
from telesto.benchmarks.pages.page import Report, write_report
from telesto.benchmarks.pages.section import Section
from telesto.benchmarks.run_data.runs import open_runs
from telesto.benchmarks.scalability_report.report import STEPS_OF_RUNS, scalability_report
from telesto.benchmarks.spark.errors import RunsError

CLIENTS = [1, 2, 4, 8, 16, 32]


def section(report: Report, key: str) -> Section:
    return next(each for each in report.sections if each.figures.key.endswith(key))


def texts(report: Report) -> str:
    return " ".join(finding.text for finding in report.findings)


@pytest.fixture(scope="module")
def report(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Report:
    path = tmp_path_factory.mktemp("runs") / "clients"
    scaled(path, repetitions=2, factors={"clients": CLIENTS}, hypothesis="It <scales>.")
    steps: list[int] = []
    report = scalability_report(spark, [path], lambda: steps.append(1))
    assert len(steps) == STEPS_OF_RUNS
    return report


class TestClosedLoop:
    def test_curve_with_intervals(self, report: Report) -> None:
        figures = section(report, "throughput").figures
        assert figures.column("level") == CLIENTS
        for low, mean, high in zip(
            *(
                figures.column(name)
                for name in ("messages_per_s_low", "messages_per_s", "messages_per_s_high")
            ),
            strict=True,
        ):
            assert low < mean < high

    def test_law(self, report: Report) -> None:
        rows = {row[0]: row for row in section(report, "law").figures.rows}
        for name, truth in (("σ", 0.1), ("κ", 0.002)):
            assert rows[name][2] < truth < rows[name][3]

    def test_stations_and_the_one_that_limits(self, report: Report) -> None:
        stations = section(report, "stations")
        assert set(stations.figures.column("station")) == {
            "processors", "middleware loops", "load generators", "calls: put", "calls: take",
        }  # fmt: skip
        assert "at clients = 16" in stations.caption
        assert "clients: most throughput at 16" in texts(report)

    def test_response_time_law_holds(self, report: Report) -> None:
        law = section(report, "response-law")
        assert all(abs(each) < 0.02 for each in law.figures.column("deviation"))  # type: ignore[arg-type]
        assert "It holds within" in law.meaning

    def test_model_stands_beside_the_measurements_with_a_reason(self, report: Report) -> None:
        model = section(report, "model").figures
        for measured, predicted, error, reason in zip(
            *(
                model.column(each)
                for each in ("measured_per_s", "predicted_per_s", "throughput_error", "reason")
            ),
            strict=True,
        ):
            assert predicted / measured - 1 == pytest.approx(error, abs=0.01)  # type: ignore[operator]
            assert reason

    def test_page_stands_alone_and_plots_share_no_ids(self, report: Report, tmp_path: Path) -> None:
        write_report(report, tmp_path / "out")
        page = (tmp_path / "out" / "index.html").read_text()
        assert "It &lt;scales&gt;." in page
        assert not re.search(r'(src|href)="https?:', page)
        ids = re.findall(r'\bid="([^"]+)"', page)
        referred = {a or b for a, b in re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', page)}
        assert referred
        assert {each for each in referred if ids.count(each) != 1} == set()
        assert "0123456789ab" in page
        assert len(list((tmp_path / "out").glob("*.csv"))) == len(report.sections) + 1


class TestOpenLoop:
    def test_latency_against_offered_load(self, spark: SparkSession, tmp_path: Path) -> None:
        def capped(run: Run) -> float:
            return min(float(run.settings.rate or 0), 400.0)

        scaled(
            tmp_path / "out",
            capped,
            factors={"rate": [100, 200, 800]},
            settings={"loop": "open"},
            repetitions=2,
        )
        report = scalability_report(spark, [tmp_path / "out"])
        offered = section(report, "throughput")
        assert offered.title == "Latency against offered load"
        assert offered.figures.column("operations_per_s") == [100, 200, 400]
        assert not any(each.figures.key.endswith(("model", "law")) for each in report.sections)

    def test_other_factors_of_an_open_loop_are_no_offered_load(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        scaled(
            tmp_path / "out",
            lambda _: 50.0,
            factors={"clients": [2, 4]},
            settings={"loop": "open", "rate": 50},
        )
        report = scalability_report(spark, [tmp_path / "out"])
        assert section(report, "throughput").title == "Throughput and response time"


class TestWhatIsMissing:
    def test_one_repetition_has_no_interval_and_that_is_said(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        scaled(tmp_path / "out", factors={"clients": [2, 4]})
        report = scalability_report(spark, [tmp_path / "out"])
        assert section(report, "throughput").figures.column("messages_per_s_low") == [None, None]
        assert "a combination with a single run has no interval" in texts(report)
        assert "takes 4 levels, and there are 2" in section(report, "law").meaning

    def test_a_part_of_an_experiment_and_an_unclean_run_are_said(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        directory = scaled(
            tmp_path / "out", factors={"clients": [2, 4]}, repetitions=3, skipped=lambda run: run.number > 4
        )
        report = scalability_report(spark, [directory.path])
        assert "missing are 0005, 0006" in texts(report)
        finish(directory, directory.runs[4], balance=LOST)
        report = scalability_report(spark, [directory.path])
        assert "The audit of 0005 is NOT CLEAN" in texts(report)

    def test_runs_without_phases_and_metrics_have_no_model(self, spark: SparkSession, tmp_path: Path) -> None:
        scaled(tmp_path / "out", factors={"clients": [2, 4]}, tables={})
        report = scalability_report(spark, [tmp_path / "out"])
        assert "no metrics or phases" in section(report, "model").meaning
        assert not any(each.figures.key.endswith("phases") for each in report.sections)

    def test_factors_that_change_the_demands_have_no_model(self, spark: SparkSession, tmp_path: Path) -> None:
        scaled(tmp_path / "out", factors={"message_bytes": [100, 1000]})
        report = scalability_report(spark, [tmp_path / "out"])
        assert "message_bytes changes what an operation needs" in section(report, "model").meaning

    def test_levels_of_nought(self, spark: SparkSession, tmp_path: Path) -> None:
        scaled(tmp_path / "out", lambda _: 50.0, factors={"think_ms": [0, 10, 100]})
        assert section(scalability_report(spark, [tmp_path / "out"]), "throughput").plot

    def test_a_word_is_no_level(self, spark: SparkSession, tmp_path: Path) -> None:
        scaled(tmp_path / "out", factors={"delivery": ["once", "fast"]})
        with pytest.raises(RunsError, match="not numbers"):
            scalability_report(spark, [tmp_path / "out"])


class TestSeveral:
    def test_experiments_stand_beside_each_other(self, spark: SparkSession, tmp_path: Path) -> None:
        scaled(tmp_path / "a", factors={"clients": [2, 4]}, title="First")
        scaled(tmp_path / "b", factors={"middlewares": [1, 2]}, title="Second")
        report = scalability_report(spark, [tmp_path / "a", tmp_path / "b"])
        assert {each.group for each in report.sections} == {"First: clients", "Second: middlewares"}
        keys = [each.figures.key for each in report.sections]
        assert len(set(keys)) == len(keys)
        write_report(report, tmp_path / "out")
        assert open_runs(tmp_path / "a").experiment.title in (tmp_path / "out" / "index.html").read_text()
