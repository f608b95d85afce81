"""The report of stability, from a directory of runs to a page."""

import csv
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from run_directories import LATENCIES, LOST, MEGABYTE, Course, finish, finished, make_experiment
from telesto.benchmarks.pages.page import PAGE, Report, write_report
from telesto.benchmarks.run_data.runs import open_runs
from telesto.benchmarks.spark.errors import RunsError
from telesto.benchmarks.stability_report import figures as stability_figures
from telesto.benchmarks.stability_report.report import STEPS, repetitions_part, stability_report
from telesto.benchmarks.stability_report.verdict import Limits

LONG = {"warm_up_s": 2, "duration_s": 30, "cool_down_s": 1}
SLOWER = Course(
    completed={"put": lambda second: 200.0, "take": lambda second: 200.0 - 4 * second},
    latencies=lambda second: [0.01 * (1 + second / 10)] * 10,
    memory_bytes=lambda tier, second: (50.0 + second * (tier == "middleware")) * MEGABYTE,
)
STALLED = Course(
    completed=dict.fromkeys(("put", "take"), lambda second: 10.0 if 20 <= second < 23 else 100.0)
)
EMPTY = Course(completed={}, latencies=lambda _: [], processors={}, counters={})
NO_FIGURES = {"messages_per_s": 0.0, "rates": {}, "latencies": {}}


def figures(report: Report, key: str) -> list[dict[str, object]]:
    (section,) = (section for section in report.sections if section.figures.key == key)
    names = [field.name for field in section.figures.fields]
    return [dict(zip(names, row, strict=True)) for row in section.figures.rows]


def waits(second: int) -> tuple[object, ...]:
    return (float(second), "client backend", "active", "IO", "WalSync", 2)


@pytest.fixture(scope="module")
def one(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Of a run without an event."""
    path = tmp_path_factory.mktemp("one") / "out"
    finished(path, Course(tables={"waits": [waits(second) for second in range(33)]}), settings=LONG)
    steps: list[None] = []
    found = stability_report(spark, open_runs(path), Limits(), lambda: steps.append(None))
    assert len(steps) == STEPS
    return found


class TestOneRun:
    def test_it_is_stable(self, one: Report) -> None:
        summary = dict(one.summary)
        assert (summary["verdict"], summary["stalled"], summary["p99"]) == ("stable", "never", "50 ms")
        assert [finding.tone for finding in one.findings] == ["good", "good"]
        assert {row["assessment"] for row in figures(one, "trends")} == {"steady", "shown only"}

    def test_the_figures_are_those_of_its_tables(self, one: Report) -> None:
        assert figures(one, "stalls") == []
        assert figures(one, "waits") == [{"event": "IO: WalSync", "backends": 2.0, "share": 1.0}]
        assert figures(one, "backlog")[-1]["backlog"] == 0
        (wal,) = [row for row in figures(one, "database") if row["counter"] == "wal_bytes"]
        assert (wal["per_s"], wal["per_message"]) == (1000.0, 10.0)
        tiers = {row["tier"]: row["processors"] for row in figures(one, "tiers")}
        assert tiers == pytest.approx({"client": 0.2, "middleware": 0.5, "postgres": 0.9})
        (log,) = [row for row in figures(one, "trends") if row["metric"].startswith("log")]
        assert log["points"] == 30

    def test_the_page_and_all_figures_are_written(self, one: Report, tmp_path: Path) -> None:
        write_report(one, tmp_path / "page")
        page = (tmp_path / "page" / PAGE).read_text()
        assert page.count("<svg") == 8
        assert "nan" not in re.sub(r"<[^>]*>", " ", page).split()
        written = {path.stem for path in (tmp_path / "page").glob("*.csv")}
        assert {
            "trends",
            "throughput",
            "throughput_fine",
            "latency_fine",
            "distribution",
            "settings",
        } <= written
        with (tmp_path / "page" / "throughput_fine.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["phase"] for row in rows] == [*["warm-up"] * 2, *["counted"] * 30, "cool-down"]
        assert {row["rate"] for row in rows} == {"100.0"}


@pytest.fixture(scope="module")
def several(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """One that gets slower and grows; one in which nothing was done or watched; one that stalled and lost a
    message; one that is not shown in detail; and one that is not complete."""
    path = tmp_path_factory.mktemp("several") / "out"
    directory = make_experiment(path, repetitions=5, settings=LONG)
    slower, empty, lost, more, _ = directory.runs
    rates = {"rates": {}, "latencies": LATENCIES}
    finish(directory, slower, SLOWER, figures={"messages_per_s": 90.0, **rates})
    finish(directory, empty, EMPTY, figures=NO_FIGURES)
    finish(directory, lost, STALLED, balance=LOST, figures={"messages_per_s": 110.0, **rates})
    finish(directory, more, figures={"messages_per_s": 100.0, **rates})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stability_figures, "RUNS_MAX", 3)
        return stability_report(spark, open_runs(path), Limits())


class TestSeveralRuns:
    def test_each_has_its_verdict_and_its_reasons(self, several: Report) -> None:
        outcomes = [row["verdict"] for row in figures(several, "runs")]
        assert outcomes == ["not stable", "unclear", "not stable"]
        (verdict,) = [finding.text for finding in several.findings if finding.text.startswith("Run 0001")]
        for reason in (
            "messages per second fell",
            "the median latency rose",
            "the backlog rose",
            "the memory of the middlewares rose",
        ):
            assert reason in verdict

    def test_stalls_alone_are_a_reason(self, several: Report) -> None:
        (verdict,) = [finding.text for finding in several.findings if finding.text.startswith("Run 0003")]
        assert verdict == (
            "Run 0003: Not stable, because 3 of 30 seconds (10.0%) had less than 50% of the median "
            "throughput, the longest stall took 3 s."
        )
        (stall,) = figures(several, "0003-stalls")
        assert (stall["from_s"], stall["seconds"], stall["least"]) == (20, 3, 10)

    def test_tables_without_rows_are_no_failure(self, several: Report) -> None:
        assert figures(several, "0002-latencies") == []
        assert figures(several, "0002-tiers") == []
        assert "No data." in several.as_html()

    def test_an_audit_that_was_not_clean_stands_first(self, several: Report) -> None:
        assert several.findings[0].tone == "bad"
        assert "The audit of 0003 is NOT CLEAN" in several.findings[0].text
        assert not [finding for finding in several.findings if "found nothing lost" in finding.text]
        assert dict(several.summary)["lost or duplicated"] == "1"

    def test_a_report_of_a_part_says_so(self, several: Report) -> None:
        text = " ".join(finding.text for finding in several.findings)
        assert "This report is PARTIAL: 4 of 5 runs are complete; missing are 0005" in text
        assert "3 of 4 runs are shown in detail: 0001, 0002, 0003" in text

    def test_repetitions_have_an_interval(self, several: Report) -> None:
        (row,) = figures(several, "repetitions")
        assert (row["repetitions"], row["messages_per_s"]) == (4, 75.0)
        assert row["low"] < 0.0 < 110.0 < row["high"]

    def test_all_figures_have_names_of_their_own(self, several: Report) -> None:
        keys = [one.key for part in several.sections for one in (part.figures, *part.more)]
        assert len(keys) == len(set(keys))
        assert {"0001-throughput", "0001-throughput_fine", "0003-latency"} <= set(keys)
        groups = {part.group for part in several.sections}
        assert groups == {"", "Run 0001", "Run 0002", "Run 0003", "The experiment"}


class TestRefusals:
    def test_one_repetition_has_no_interval(self, tmp_path: Path) -> None:
        finished(tmp_path / "out", factors={"clients": [1, 2]}, settings={"duration_s": 1})
        section = repetitions_part(open_runs(tmp_path / "out"))
        assert "2 of them have one repetition and so no interval" in section.meaning
        assert [row[-2:] for row in section.figures.rows] == [(None, None)] * 2

    def test_a_run_of_which_no_second_counts_is_refused(self, spark: SparkSession, tmp_path: Path) -> None:
        finished(tmp_path / "out", settings={"warm_up_s": 0.2, "duration_s": 0.5, "cool_down_s": 0.5})
        with pytest.raises(RunsError, match="run 0001 is too short: no whole second"):
            stability_report(spark, open_runs(tmp_path / "out"), Limits())

    def test_a_table_of_an_older_version_is_refused(self, spark: SparkSession, tmp_path: Path) -> None:
        directory = finished(tmp_path / "out")
        file = directory.run_directory(directory.runs[0]) / "waits.parquet"
        pq.write_table(pa.table({"since_s": [1.0]}), file)
        with pytest.raises(RunsError, match=r"waits\.parquet lacks backend_type, state"):
            stability_report(spark, open_runs(tmp_path / "out"), Limits())
