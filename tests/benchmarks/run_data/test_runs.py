"""The runs of an experiment, read: complete ones and their tables, and what is wrong with others."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.testing import assertDataFrameEqual

from run_directories import CLEAN, LOST, Course, finish, finished, make_experiment
from telesto.benchmarks.harness.manifest import MANIFEST, RUN_FILE
from telesto.benchmarks.results.tables import SCHEMAS
from telesto.benchmarks.run_data.runs import open_runs
from telesto.benchmarks.run_data.timeline import Timeline, counted, timelines
from telesto.benchmarks.spark.errors import RunsError


class TestWhichRuns:
    def test_whole_runs_are_found_and_missing_ones_named(self, tmp_path: Path) -> None:
        directory = make_experiment(tmp_path / "out", repetitions=2, factors={"clients": [1, 2]})
        first, second, third, fourth = directory.runs
        for run in (first, second):
            finish(directory, run)
        directory.begin_run(third)
        runs = open_runs(tmp_path / "out")
        assert [run.name for run in runs.complete] == [first.name, second.name]
        assert runs.missing == (third.name, fourth.name)
        assert runs.origin["source"]["commit"].startswith("0123")
        assert runs.results[first.name]["levels"] == first.levels

    def test_repetitions_stand_together_in_their_order(self, tmp_path: Path) -> None:
        finished(tmp_path / "out", repetitions=3, factors={"clients": [1, 2]})
        runs = open_runs(tmp_path / "out")
        assert not runs.missing
        groups = runs.repetitions()
        assert sorted(groups) == [1, 2]
        for combination, group in groups.items():
            assert [run.repetition for run in group] == [1, 2, 3]
            assert {run.levels["clients"] for run in group} == {combination}

    def test_an_audit_that_was_not_clean_is_told(self, tmp_path: Path) -> None:
        directory = make_experiment(tmp_path / "out", repetitions=2)
        first, second = directory.runs
        finish(directory, first, balance=CLEAN)
        finish(directory, second, balance=LOST)
        assert open_runs(tmp_path / "out").unclean == (second.name,)


class TestWhatIsWrong:
    def test_no_directory(self, tmp_path: Path) -> None:
        with pytest.raises(RunsError, match="there is no directory"):
            open_runs(tmp_path / "nowhere")

    def test_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(RunsError, match="there is no directory"):
            open_runs(tmp_path / "file")

    def test_no_experiment(self, tmp_path: Path) -> None:
        with pytest.raises(RunsError, match="is not the directory of an experiment"):
            open_runs(tmp_path)

    def test_no_run_is_complete(self, tmp_path: Path) -> None:
        make_experiment(tmp_path / "out", repetitions=12)
        with pytest.raises(
            RunsError, match=r"none of the 12 runs is complete \(missing: 0001, .* and 2 more\)"
        ):
            open_runs(tmp_path / "out")

    @pytest.mark.parametrize(
        ("manifest", "reason"),
        [("{", "experiment.json"), ('{"format": 99}', "has format 99"), ("[]", "not the manifest")],
    )
    def test_a_manifest_that_cannot_be_read(self, tmp_path: Path, manifest: str, reason: str) -> None:
        finished(tmp_path / "out")
        (tmp_path / "out" / MANIFEST).write_text(manifest)
        with pytest.raises(RunsError, match=reason):
            open_runs(tmp_path / "out")

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda result: result.pop("balance"), "has no balance"),
            (lambda result: result["balance"].pop("clean"), r"has no balance\.clean"),
            (lambda result: result.clear(), "has no settings, figures"),
        ],
    )
    def test_a_run_of_another_version(self, tmp_path: Path, change: object, reason: str) -> None:
        directory = finished(tmp_path / "out")
        file = directory.run_directory(directory.runs[0]) / RUN_FILE
        result = json.loads(file.read_text())
        change(result)  # type: ignore[operator]
        file.write_text(json.dumps(result))
        with pytest.raises(RunsError, match=reason):
            open_runs(tmp_path / "out")

    def test_a_run_that_is_damaged(self, tmp_path: Path) -> None:
        directory = finished(tmp_path / "out")
        (directory.run_directory(directory.runs[0]) / RUN_FILE).write_text("{")
        with pytest.raises(RunsError, match="cannot be read"):
            open_runs(tmp_path / "out")


class TestTables:
    def test_rows_say_from_which_run_they_are(self, spark: SparkSession, tmp_path: Path) -> None:
        directory = make_experiment(tmp_path / "out", repetitions=2, settings={"duration_s": 1})
        for number, run in enumerate(directory.runs, start=1):
            finish(directory, run, Course(completed={"put": lambda second, n=number: 10 * n + second}))
        table = open_runs(tmp_path / "out").table(spark, "throughput")
        expected = [
            Row(run=f"000{n}", second=second, operation="put", completed=10 * n + second)
            for n in (1, 2)
            for second in range(4)
        ]
        assertDataFrameEqual(table, expected)

    def test_a_path_may_hold_what_would_be_a_pattern(self, spark: SparkSession, tmp_path: Path) -> None:
        place = tmp_path / "a [b] {c} *d? \\e %20 é"
        finished(place)
        assert open_runs(place).table(spark, "throughput").select("run").distinct().collect() == [("0001",)]

    @pytest.mark.parametrize("name", SCHEMAS)
    def test_every_table_has_its_columns(self, spark: SparkSession, tmp_path: Path, name: str) -> None:
        finished(tmp_path / "out", settings={"duration_s": 1})
        assert open_runs(tmp_path / "out").table(spark, name).columns == ["run", *SCHEMAS[name].names]

    def test_missing_columns_are_named(self, spark: SparkSession, tmp_path: Path) -> None:
        directory = finished(tmp_path / "out")
        file = directory.run_directory(directory.runs[0]) / "throughput.parquet"
        pq.write_table(pa.table({"second": pa.array([1], pa.int64()), "operation": ["put"]}), file)
        with pytest.raises(RunsError, match=r"throughput\.parquet lacks second, completed"):
            open_runs(tmp_path / "out").table(spark, "throughput")

    def test_a_column_more_does_no_harm(self, spark: SparkSession, tmp_path: Path) -> None:
        directory = finished(tmp_path / "out")
        file = directory.run_directory(directory.runs[0]) / "throughput.parquet"
        table = pq.read_table(file)
        pq.write_table(table.append_column("later", pa.array([1] * len(table))), file)
        assert open_runs(tmp_path / "out").table(spark, "throughput").count() == len(table)

    @pytest.mark.parametrize(("damage", "reason"), [("gone", "there is no"), ("broken", "cannot be read")])
    def test_a_table_that_is_gone_or_broken(
        self, spark: SparkSession, tmp_path: Path, damage: str, reason: str
    ) -> None:
        directory = finished(tmp_path / "out")
        file = directory.run_directory(directory.runs[0]) / "tiers.parquet"
        file.unlink() if damage == "gone" else file.write_bytes(b"no Parquet")
        with pytest.raises(RunsError, match=reason):
            open_runs(tmp_path / "out").table(spark, "tiers")


class TestWindows:
    def test_warm_up_and_cool_down_are_cut_off_the_same_way(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        finished(tmp_path / "out", settings={"warm_up_s": 2, "duration_s": 3, "cool_down_s": 1})
        runs = open_runs(tmp_path / "out")
        lines = timelines(runs, runs.table(spark, "throughput"))
        assert lines == {"0001": Timeline(2, 5, 6, 1, 1)}
        for name, moment in (("throughput", "second"), ("histograms", "second"), ("tiers", "since_s")):
            found = counted(runs.table(spark, name), lines, moment).select(moment).distinct().collect()
            assert sorted(row[0] for row in found) == [2, 3, 4], name

    def test_a_second_counts_when_all_of_it_is_inside(self, spark: SparkSession, tmp_path: Path) -> None:
        finished(tmp_path / "out", settings={"warm_up_s": 0.5, "duration_s": 3, "cool_down_s": 1})
        runs = open_runs(tmp_path / "out")
        lines = timelines(runs, runs.table(spark, "throughput"))
        assert (lines["0001"].begin_s, lines["0001"].end_s) == (1, 3)
        looks = spark.createDataFrame([("r", at / 2) for at in range(9)], "run string, since_s double")
        found = counted(looks, {"r": Timeline(1, 2, 4, 1, 1)}, "since_s")
        assertDataFrameEqual(found, [Row(run="r", since_s=s) for s in (1.0, 1.5)])

    def test_runs_that_are_not_asked_for_are_left_out(self, spark: SparkSession) -> None:
        seconds = spark.createDataFrame([("a", 1), ("b", 1)], "run string, second int")
        found = counted(seconds, {"b": Timeline(0, 9, 9, 1, 1)}, "second")
        assertDataFrameEqual(found, [Row(run="b", second=1)])

    def test_a_drain_counts_to_its_last_message(self, spark: SparkSession, tmp_path: Path) -> None:
        finished(tmp_path / "out", settings={"workload": "drain", "backlog": 100})
        runs = open_runs(tmp_path / "out")
        throughput = spark.createDataFrame([("0001", 32), ("0001", 3)], "run string, second int")
        assert timelines(runs, throughput) == {"0001": Timeline(0, 33, 33, 1, 1)}
