"""What is taken from the tables of runs, and how runs become levels of a factor."""

from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.testing import assertDataFrameEqual

from scaled_runs import CALL_ALONE_S, CALL_EACH_S, scaled
from telesto.benchmarks.load.settings import RunSettings
from telesto.benchmarks.run_data.runs import open_runs
from telesto.benchmarks.scalability_report.sweep import (
    WORKERS_DEFAULT,
    Sweep,
    call_times,
    calls_per_s,
    measure,
    operations_of,
    phase_means,
    processors_of,
    sweeps_of,
    workers_of,
)
from telesto.benchmarks.spark.errors import RunsError
from telesto.middleware.common.settings import ServerSettings

PHASES = (
    "run string, kind string, tries int, parse_us double, fifo_us double, database_us double, "
    "parked_us double, answer_us double, batch int"
)
METRICS = "run string, since_s double, middleware int, metric string, label string, value double"
BUSY = "telesto_call_seconds_total"


class TestFrames:
    def test_means_of_phases(self, spark: SparkSession) -> None:
        rows = [
            ("1", "put", 1, 10.0, 100.0, 1000.0, 0.0, 30.0, 2),
            ("1", "put", 2, 30.0, 300.0, 3000.0, 0.0, 50.0, 4),
            ("2", "take", 1, 1.0, 2.0, 3.0, 4e6, 5.0, 1),
        ]
        found = phase_means(spark.createDataFrame(rows, PHASES))
        expected = [
            Row(run="1", kind="put", followed=2, parse_s=2e-5, fifo_s=2e-4, database_s=2e-3, parked_s=0.0,
                answer_s=4e-5, tries=1.5, batch=3.0),
            Row(run="2", kind="take", followed=1, parse_s=1e-6, fifo_s=2e-6, database_s=3e-6, parked_s=4.0,
                answer_s=5e-6, tries=1.0, batch=1.0),
        ]  # fmt: skip
        assertDataFrameEqual(found, expected)

    def test_line_of_call_times(self, spark: SparkSession) -> None:
        def call(run: str, tries: int, length: float, batch: int) -> tuple[object, ...]:
            return (run, "put", tries, 0.0, 0.0, length, 0.0, 0.0, batch)

        rows = [call("1", 1, 3000.0, 1), call("1", 1, 4000.0, 2), call("1", 1, 6000.0, 4)]
        rows += [call("1", 2, 9e9, 3), call("2", 1, 5.0, 7), call("2", 1, 6.0, 7)]
        found = {row["run"]: row for row in call_times(spark.createDataFrame(rows, PHASES)).collect()}
        assert found["1"]["alone_s"] == pytest.approx(0.002)
        assert found["1"]["each_s"] == pytest.approx(0.001)
        assert found["2"]["each_s"] is None

    def test_calls_of_several_middlewares(self, spark: SparkSession) -> None:
        rows = []
        for middleware, rate in ((1, 10.0), (2, 30.0)):
            for at in (0.0, 1.0, 2.0):
                rows.append(("1", at, middleware, "telesto_requests_total", "put", 100 + 4 * rate * at))
                rows.append(("1", at, middleware, "telesto_calls_total", "put", 7 + rate * at))
                rows.append(("1", at, middleware, BUSY, "put", 0.01 * rate * at))
        rows.append(("1", 1.0, 1, "telesto_connections", "", 5.0))
        found = calls_per_s(spark.createDataFrame(rows, METRICS)).collect()
        assert len(found) == 1
        assert found[0]["requests"] == pytest.approx(160)
        assert found[0]["calls"] == pytest.approx(40)
        assert found[0]["busy"] == pytest.approx(0.4)

    def test_a_counter_that_was_set_back_begins_anew(self, spark: SparkSession) -> None:
        values = (100.0, 110.0, 5.0)
        rows = [
            ("1", float(at), 1, "telesto_requests_total", "put", value) for at, value in enumerate(values)
        ]
        assert calls_per_s(spark.createDataFrame(rows, METRICS)).collect()[0]["requests"] == pytest.approx(
            7.5
        )

    def test_kinds_without_a_request_are_left_out(self, spark: SparkSession) -> None:
        rows = [("1", float(at), 1, "telesto_requests_total", "ack", 0.0) for at in range(3)]
        assert calls_per_s(spark.createDataFrame(rows, METRICS)).collect() == []


class TestMeasured:
    def test_what_a_run_gave(self, spark: SparkSession, tmp_path: Path) -> None:
        runs = open_runs(scaled(tmp_path / "out", lambda _: 100.0, factors={"clients": [2, 4]}).path)
        steps: list[int] = []
        found = measure(spark, runs, lambda: steps.append(1))
        assert len(steps) == 4
        run = next(found[each.name] for each in runs.complete if each.settings.clients == 4)
        assert run.operations_per_s == 200
        assert run.response_s["mean_s"] == pytest.approx(4 / 200, rel=0.01)
        assert run.calls["put"].requests / run.calls["put"].calls == pytest.approx(4)
        assert run.calls["put"].busy == pytest.approx(25 * 0.004)
        assert run.calls["put"].alone_s == pytest.approx(CALL_ALONE_S)
        assert run.calls["put"].each_s == pytest.approx(CALL_EACH_S)
        assert run.phase_s["parked"] == pytest.approx(0.0005)
        stations = {station.name: station for station in run.stations(2)}
        assert stations["processors"].utilisation == pytest.approx(100 * 9e-4 / 2)
        assert stations["middleware loops"].demand_s == pytest.approx(3e-4 / 2)
        assert stations["calls: put"].utilisation == pytest.approx(0.05)

    def test_operations_in_which_clients_wait(self) -> None:
        rates = {"put": 1.0, "take": 1.0, "request": 1.0, "response": 1.0, "reply": 1.0}
        assert operations_of(RunSettings(workload="mix"), rates) == ["put", "take", "request", "reply"]
        open_loop = RunSettings(workload="put-read", loop="open", rate=10)
        assert operations_of(open_loop, {"put": 1.0, "take": 1.0}) == ["put"]

    def test_workers_are_those_of_the_middleware(self) -> None:
        assert workers_of(RunSettings(workers=3), "take_selected") == 4
        shared = RunSettings(pool_size=7)
        assert [workers_of(shared, kind) for kind in ("put", "take", "take_selected")] == [4, 3, 3]
        for kind in ("put", "take", "selected", "ack", "confirm", "publish", "fetch"):
            assert ServerSettings.model_fields[f"{kind}_workers"].default == WORKERS_DEFAULT

    def test_figures_of_another_version(self, spark: SparkSession, tmp_path: Path) -> None:
        directory = scaled(tmp_path / "out", factors={"clients": [1, 2]})
        runs = open_runs(directory.path)
        runs.results[runs.complete[0].name]["figures"].pop("rates")
        with pytest.raises(RunsError, match="has no rates"):
            measure(spark, runs)

    def test_a_run_without_latencies(self, spark: SparkSession, tmp_path: Path) -> None:
        directory = scaled(tmp_path / "out", factors={"clients": [1, 2]}, settings={"duration_s": 0.5})
        with pytest.raises(RunsError, match="too short"):
            measure(spark, open_runs(directory.path))


class TestSweeps:
    def sweeps(self, spark: SparkSession, path: Path, **values: object) -> tuple[list[Sweep], list[str]]:
        runs = open_runs(scaled(path / "out", **values).path)  # type: ignore[arg-type]
        return sweeps_of(runs, measure(spark, runs))

    def test_levels_rise_and_hold_their_repetitions(self, spark: SparkSession, tmp_path: Path) -> None:
        sweeps, said = self.sweeps(spark, tmp_path, repetitions=2, factors={"clients": [8, 2, 4]})
        assert said == []
        assert [level.value for level in sweeps[0].levels] == [2, 4, 8]
        assert [len(level.runs) for level in sweeps[0].levels] == [2, 2, 2]
        assert sweeps[0].closed
        assert not sweeps[0].open

    def test_each_combination_of_the_others_is_a_sweep(self, spark: SparkSession, tmp_path: Path) -> None:
        factors = {"clients": [2, 4], "delivery": ["once", "fast"]}
        sweeps, said = self.sweeps(spark, tmp_path, factors=factors)
        assert [sweep.name for sweep in sweeps] == ["clients (delivery = once)", "clients (delivery = fast)"]
        assert said == ["delivery has levels that are not numbers, so it has no curve."]

    def test_a_broken_off_experiment_has_fewer_levels(self, spark: SparkSession, tmp_path: Path) -> None:
        sweeps, _ = self.sweeps(
            spark, tmp_path, factors={"clients": [2, 4, 8]}, skipped=lambda run: run.settings.clients == 4
        )
        assert sweeps[0].values == [2, 8]

    @pytest.mark.parametrize(
        ("values", "reason"),
        [
            ({}, "varies nothing"),
            ({"factors": {"clients": [4]}}, "of one level only"),
            (
                {"factors": {"delivery": ["once", "fast"]}},
                "no factor has runs of two levels that are numbers",
            ),
            ({"factors": {"old_snapshot": [False, True]}}, "not numbers"),
        ],
    )
    def test_what_has_no_curve(
        self, spark: SparkSession, tmp_path: Path, values: dict[str, object], reason: str
    ) -> None:
        with pytest.raises(RunsError, match=reason):
            self.sweeps(spark, tmp_path, **values)

    def test_processors_of_the_machine(self, tmp_path: Path) -> None:
        runs = open_runs(scaled(tmp_path / "out").path)
        assert processors_of(runs) == 2
        runs.origin["machine"].clear()
        assert processors_of(runs) is None
