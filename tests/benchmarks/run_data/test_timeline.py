"""The analyses of the course of a run, on figures small enough to compute by hand."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from telesto.benchmarks.run_data import throughput as run_throughput
from telesto.benchmarks.run_data import usage as run_usage
from telesto.benchmarks.run_data.timeline import (
    COARSE,
    COARSE_MAX,
    COOL_DOWN,
    COUNTED,
    FINE,
    FINE_MAX,
    WARM_UP,
    Timeline,
    counted,
    every_second,
    placed,
    step_for,
)

#: Two seconds of warm-up, five that count, one of cool-down; coarse intervals of two seconds.
LINES = {"a": Timeline(begin_s=2, end_s=7, total_s=8, fine_s=1, coarse_s=2)}
INTERVALS = [(WARM_UP, 0, 2), (COUNTED, 2, 2), (COUNTED, 4, 2), (COUNTED, 6, 1), (COOL_DOWN, 7, 1)]
INTERVAL = "run string, phase string, at_s int, width_s int"
THROUGHPUT = "run string, second int, operation string, completed long"
TIERS = "run string, since_s double, tier string, process int, cpu_s double, memory_bytes long"
COUNTERS = "run string, since_s double, source string, counter string, value double"
WAITS = (
    "run string, since_s double, backend_type string, state string, wait_event_type string, "
    "wait_event string, backends int"
)


class Make:
    """Makes data frames of the run `a`."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def rows(self, schema: str, *rows: tuple[Any, ...]) -> DataFrame:
        return self.spark.createDataFrame([("a", *row) for row in rows], schema)

    def throughput(self, operation: str, *completed: int) -> DataFrame:
        """So many operations in second 0, 1, ...; seconds without any have no row, as in the files."""
        rows = [(second, operation, count) for second, count in enumerate(completed) if count]
        return self.rows(THROUGHPUT, *rows)

    def seconds(self, *messages: int) -> DataFrame:
        return self.rows("run string, second int, messages long", *enumerate(messages))


@pytest.fixture(scope="module")
def make(spark: SparkSession) -> Make:
    return Make(spark)


def same(actual: DataFrame, expected: DataFrame) -> None:
    assertDataFrameEqual(
        actual.select(*expected.columns), expected, checkRowOrder=False, ignoreNullable=True, rtol=1e-9
    )


def coarse(frame: DataFrame) -> DataFrame:
    return frame.where(F.col("step") == COARSE).drop("step")


class TestTimeline:
    @pytest.mark.parametrize(
        ("counted_s", "fine", "coarse"),
        [(1, 1, 1), (60, 1, 1), (61, 1, 2), (600, 1, 10), (889, 1, 30), (890, 2, 30), (7200, 10, 120)],
    )
    def test_intervals_are_as_short_as_the_number_of_points_allows(
        self, counted_s: int, fine: int, coarse: int
    ) -> None:
        line = Timeline.of(10, 10 + counted_s, 11 + counted_s)
        assert (line.fine_s, line.coarse_s, line.counted_s) == (fine, coarse, counted_s)
        assert 11 + counted_s <= fine * FINE_MAX
        assert counted_s <= coarse * COARSE_MAX

    def test_what_is_longer_than_all_has_the_longest(self) -> None:
        assert step_for(10**9, 60) == 86_400

    def test_no_interval_goes_over_the_end_of_a_phase(self, make: Make) -> None:
        moments = make.rows("run string, since_s double", *[(at / 2,) for at in range(-1, 18)])
        columns = ("step", "phase", "at_s", "width_s", "since_s")
        found = placed(moments, LINES, "since_s").select(*columns).orderBy("step", "since_s").collect()
        expected = [
            (COARSE, phase, at, width, at + half / 2)
            for phase, at, width in INTERVALS
            for half in range(2 * width)
        ]
        phases = [WARM_UP] * 2 + [COUNTED] * 5 + [COOL_DOWN]
        expected += [
            (FINE, phase, second, 1, second + half / 2)
            for second, phase in enumerate(phases)
            for half in (0, 1)
        ]
        assert [tuple(row) for row in found] == expected

    def test_runs_that_are_not_told_of_are_left_out(self, spark: SparkSession) -> None:
        moments = spark.createDataFrame([("a", 3.0), ("b", 3.0)], "run string, since_s double")
        assert {row["run"] for row in placed(moments, LINES, "since_s").collect()} == {"a"}
        assert [row["run"] for row in counted(moments, LINES, "since_s").collect()] == ["a"]

    def test_every_second_is_there(self, spark: SparkSession) -> None:
        lines = {"a": Timeline(0, 1, 2, 1, 1), "b": Timeline(0, 2, 3, 1, 1)}
        rows = every_second(spark, lines).orderBy("run", "second").collect()
        assert [tuple(row) for row in rows] == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)]


class TestThroughput:
    def test_messages_are_those_handed_over_and_a_second_without_one_counts_too(self, make: Make) -> None:
        throughput = (
            make.throughput("put", 9, 9, 9, 9)
            .unionByName(make.throughput("take", 5, 0, 7, 0, 1))
            .unionByName(make.throughput("response", 1, 0, 0, 0, 1))
        )
        same(run_throughput.messages_by_second(throughput, LINES), make.seconds(6, 0, 7, 0, 2, 0, 0, 0))

    def test_where_nobody_reads_they_are_those_put(self, make: Make) -> None:
        throughput = make.throughput("put", 9, 0, 4)
        same(run_throughput.messages_by_second(throughput, LINES), make.seconds(9, 0, 4, 0, 0, 0, 0, 0))

    def test_rates_are_those_of_the_interval_s_own_length(self, make: Make) -> None:
        found = run_throughput.messages_by_interval(make.seconds(2, 4, 10, 20, 30, 50, 7, 9), LINES)
        values = [(3.0, 2, 4), (15.0, 10, 20), (40.0, 30, 50), (7.0, 7, 7), (9.0, 9, 9)]
        expected = make.rows(
            INTERVAL + ", rate double, least long, most long",
            *[(*interval, *value) for interval, value in zip(INTERVALS, values, strict=True)],
        )
        same(coarse(found), expected)
        fine = found.where(F.col("step") == FINE).orderBy("at_s").collect()
        assert [row["rate"] for row in fine] == [2.0, 4.0, 10.0, 20.0, 30.0, 50.0, 7.0, 9.0]


class TestStalls:
    COLUMNS = "run string, from_s int, seconds long, least long, missed double"

    def test_seconds_in_a_row_are_one_stall(self, spark: SparkSession, make: Make) -> None:
        lines = {"a": Timeline(1, 10, 11, 1, 1)}
        found = run_throughput.stalls(make.seconds(0, 10, 10, 3, 0, 10, 10, 4, 10, 10, 0), lines, 0.5)
        same(found, make.rows(self.COLUMNS, (3, 2, 0, 17.0), (7, 1, 4, 6.0)))

    def test_warm_up_and_cool_down_are_none(self, make: Make) -> None:
        assert run_throughput.stalls(make.seconds(0, 0, 9, 9, 9, 9, 9, 0), LINES, 0.5).count() == 0

    def test_half_is_not_less_than_half(self, make: Make) -> None:
        assert run_throughput.stalls(make.seconds(0, 0, 10, 10, 5, 10, 10, 0), LINES, 0.5).count() == 0

    def test_each_run_has_its_own_median(self, spark: SparkSession) -> None:
        lines = {"a": Timeline(0, 3, 3, 1, 1), "b": Timeline(0, 3, 3, 1, 1)}
        rows = [("a", 0, 100), ("a", 1, 100), ("a", 2, 40), ("b", 0, 40), ("b", 1, 40), ("b", 2, 40)]
        seconds = spark.createDataFrame(rows, "run string, second int, messages long")
        assert [row["run"] for row in run_throughput.stalls(seconds, lines, 0.5).collect()] == ["a"]

    def test_where_nothing_happens_most_of_the_time_there_is_no_stall(self, make: Make) -> None:
        assert run_throughput.stalls(make.seconds(0, 0, 0, 0, 0, 9, 0, 0), LINES, 0.5).count() == 0


class TestBacklog:
    def test_it_is_what_came_less_what_went(self, make: Make) -> None:
        throughput = (
            make.throughput("put", 5, 5, 0, 2)
            .unionByName(make.throughput("take", 1, 4, 0, 3, 3))
            .unionByName(make.throughput("request", 1))
            .unionByName(make.throughput("delivery", 50))
            .unionByName(make.throughput("ack", 0, 0, 0, 0, 0, 1))
        )
        found = run_throughput.backlog_by_second(throughput, LINES, {"a": 100})
        expected = [105, 106, 106, 105, 102, 101, 101, 101]
        same(found, make.rows("run string, second int, backlog long", *enumerate(expected)))

    def test_an_interval_has_what_was_there_at_its_end(self, make: Make) -> None:
        seconds = make.rows("run string, second int, backlog long", *enumerate([1, 2, 9, 4, 5, 6, 7, 8]))
        values = [(2, 2), (4, 9), (6, 6), (7, 7), (8, 8)]
        expected = make.rows(
            INTERVAL + ", backlog long, most long",
            *[(*interval, *value) for interval, value in zip(INTERVALS, values, strict=True)],
        )
        same(coarse(run_throughput.backlog_by_interval(seconds, LINES)), expected)

    def test_topics_have_none(self, make: Make) -> None:
        throughput = make.throughput("publish", 1, 1)
        assert run_throughput.backlog_by_second(throughput, LINES, {}).count() == 0


class TestUsage:
    def test_processors_are_what_all_processes_of_a_tier_use(self, make: Make) -> None:
        first = [(float(at), "middleware", 1, 0.5 * at, 10) for at in range(5)]
        second = [(float(at), "middleware", 2, 0.25 * at, 20) for at in range(5)]
        expected = make.rows(
            INTERVAL + ", tier string, processors double",
            (WARM_UP, 0, 2, "middleware", 0.75),
            (COUNTED, 2, 2, "middleware", 0.75),
        )
        tiers = make.rows(TIERS, *first, *second)
        same(coarse(run_usage.processors_by_interval(tiers, LINES)), expected)

    def test_looks_at_uneven_times_are_weighted_with_them(self, make: Make) -> None:
        looks = [(2.0, 0.0), (2.5, 0.5), (4.0, 0.8)]
        tiers = make.rows(TIERS, *[(at, "client", 1, cpu, 1) for at, cpu in looks])
        expected = make.rows(INTERVAL + ", tier string, processors double", (COUNTED, 2, 2, "client", 0.4))
        same(coarse(run_usage.processors_by_interval(tiers, LINES)), expected)

    def test_memory_is_that_of_all_processes_at_a_time(self, make: Make) -> None:
        rows = [(at, "client", process, 0.0, memory) for at, process, memory in MEMORY]
        expected = make.rows(INTERVAL + ", tier string, memory_bytes double", (COUNTED, 2, 2, "client", 40.0))
        same(coarse(run_usage.memory_by_interval(make.rows(TIERS, *rows), LINES)), expected)


MEMORY = [(2.0, 1, 10), (2.0, 2, 20), (3.0, 1, 20), (3.0, 2, 30)]


class TestCounters:
    def test_they_are_told_by_how_much_they_rise(self, make: Make) -> None:
        rows = [(float(at), "wal", "wal_bytes", 1000.0 + 100 * at) for at in range(9)]
        counters = make.rows(COUNTERS, *rows)
        total = make.rows(
            "run string, source string, counter string, total double, per_s double",
            ("wal", "wal_bytes", 500.0, 100.0),
        )
        same(run_usage.totals(counters, LINES), total)
        columns = INTERVAL + ", source string, counter string, per_s double"
        expected = make.rows(columns, *[(*interval, "wal", "wal_bytes", 100.0) for interval in INTERVALS])
        same(coarse(run_usage.growth_by_interval(counters, LINES)), expected)

    def test_one_that_was_set_back_begins_anew(self, make: Make) -> None:
        rows = [(float(at), "wal", "wal_bytes", value) for at, value in ((2, 70.0), (3, 90.0), (4, 5.0))]
        (row,) = run_usage.totals(make.rows(COUNTERS, *rows), LINES).collect()
        assert row["total"] == 25.0

    def test_what_says_how_much_there_is_does_not_rise(self, make: Make) -> None:
        rows = [(float(at), "tables", "n_dead_tup", value) for at, value in ((2, 10.0), (3, 30.0))]
        counters = make.rows(COUNTERS, *rows)
        assert run_usage.totals(counters, LINES).count() == 0
        columns = INTERVAL + ", source string, counter string, level double"
        expected = make.rows(columns, (COUNTED, 2, 2, "tables", "n_dead_tup", 20.0))
        same(coarse(run_usage.levels_by_interval(counters, LINES)), expected)

    def test_checkpoints_are_found_by_either_view(self, make: Make) -> None:
        rows = [
            *[(float(at), "checkpointer", "num_timed", value) for at, value in enumerate([3.0, 3.0, 4.0])],
            *[
                (float(at), "checkpointer", "num_requested", value)
                for at, value in enumerate([0.0, 0.0, 1.0])
            ],
            *[(float(at), "bgwriter", "checkpoints_req", value) for at, value in enumerate([0.0, 2.0, 2.0])],
            *[(float(at), "bgwriter", "buffers_alloc", value) for at, value in enumerate([0.0, 2.0, 3.0])],
        ]
        expected = make.rows("run string, since_s double, checkpoints long", (1.0, 2), (2.0, 2))
        same(run_usage.checkpoints(make.rows(COUNTERS, *rows)), expected)


class TestWaits:
    ROWS = (
        (2.0, "client backend", "active", "IO", "WalSync", 3),
        (2.0, "client backend", "idle", "Client", "ClientRead", 9),
        (2.5, "client backend", "active", "", "", 2),
        (2.5, "checkpointer", "", "Activity", "CheckpointerMain", 1),
        (3.0, "client backend", "active", "IO", "WalSync", 1),
        (3.5, "client backend", "idle", "Client", "ClientRead", 9),
        (7.5, "client backend", "active", "IO", "WalSync", 1),
    )

    def test_a_mean_counts_the_samples_too_in_which_nobody_waited(self, make: Make) -> None:
        waits = make.rows(WAITS, *self.ROWS)
        expected = make.rows(
            INTERVAL + ", event string, backends double",
            (COUNTED, 2, 2, "IO: WalSync", 1.0),
            (COUNTED, 2, 2, "running", 0.5),
            (COOL_DOWN, 7, 1, "IO: WalSync", 1.0),
        )
        same(coarse(run_usage.waits_by_interval(waits, LINES)), expected)

    def test_over_the_run_only_what_counts_counts(self, make: Make) -> None:
        found = run_usage.waits_by_event(make.rows(WAITS, *self.ROWS), LINES)
        columns = "run string, event string, backends double, share double"
        same(found, make.rows(columns, ("IO: WalSync", 1.0, 4 / 6), ("running", 0.5, 2 / 6)))
