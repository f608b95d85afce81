"""The analyses on data frames small enough to compute by hand."""

import re

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from frames import Frames, at
from telesto.benchmarks.service_report import audit
from telesto.benchmarks.service_report import frames as analyses


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> Frames:
    return Frames(spark)


def same(actual: DataFrame, expected: DataFrame) -> None:
    """Names, values and order of columns; not whether a column could be NULL, nor the order of rows."""
    assertDataFrameEqual(actual, expected, checkRowOrder=False, ignoreNullable=True, rtol=1e-9)


class TestQueues:
    def test_contents_are_counted_by_state_and_the_dead_have_no_age(self, frames: Frames) -> None:
        present = frames.make(
            "present",
            frames.there(1, arrived=-30),
            frames.there(2, arrived=-90, state="leased", bytes=5),
            frames.there(3, arrived=-500, state="dead"),
            frames.there(4, arrived=-7, queue_id=9),
        )
        names = frames.make("queues", {"queue_id": 1, "name": "orders"}, {"queue_id": 2, "name": "empty"})
        columns = (
            "queue string, waiting long, in_partitions long, delayed long, staged long, handed_over long, "
            "leased long, dead long, bytes long, oldest_s double"
        )
        expected = frames.of(
            columns,
            ("orders", 1, 0, 0, 0, 0, 1, 1, 25, 90.0),
            ("empty", 0, 0, 0, 0, 0, 0, 0, 0, None),
            ("queue 9", 1, 0, 0, 0, 0, 0, 0, 10, 7.0),
        )
        same(analyses.contents_by_queue(present, names, at(0)), expected)

    def test_attempts_tell_what_became_of_each_hand_over(self, frames: Frames) -> None:
        history = frames.make(
            "history",
            frames.ended(1, 0, 1, 2),
            frames.ended(2, 0, 1, 2, ending="returned"),
            frames.ended(2, 0, 3, 4, attempt=2, ending="acknowledged"),
            frames.ended(3, 0, 3, 4, attempt=2, ending="dead"),
            frames.ended(4, 0, None, 4, attempt=0, ending="expired"),
        )
        expected = frames.of("attempt int, done long, came_back long, died long", (1, 1, 1, 0), (2, 1, 0, 1))
        same(analyses.attempts(history), expected)

    def test_dead_letters_are_counted_by_reason(self, frames: Frames) -> None:
        letters = frames.make(
            "dead_letters",
            {"queue_id": 1, "reason": "failed", "attempt": 5, "died_at": at(-10)},
            {"queue_id": 1, "reason": "failed", "attempt": 3, "died_at": at(-60)},
            {"queue_id": 1, "reason": "rejected: it is old", "attempt": 1, "died_at": at(-20)},
            {"queue_id": 1, "reason": "rejected: no: task", "attempt": 2, "died_at": at(-30)},
            {"queue_id": 1, "reason": "expired", "attempt": 0, "died_at": at(-5)},
        )
        expected = frames.of(
            "queue string, reason string, letters long, attempts_max int, oldest_s double",
            ("orders", "failed", 2, 5, 60.0),
            ("orders", "rejected", 2, 2, 30.0),
            ("orders", "expired", 1, 0, 5.0),
        )
        names = frames.make("queues", {"queue_id": 1, "name": "orders"})
        same(analyses.dead_by_reason(letters, names, at(0)), expected)

    def test_totals_of_nothing_are_zeros(self, frames: Frames) -> None:
        actual = analyses.totals(frames.make("present"), frames.make("history"), at(0))
        same(actual, frames.of("alive long, dead long, oldest_s double, processed long", (0, 0, None, 0)))

    def test_endings_are_counted_by_queue(self, frames: Frames) -> None:
        history = frames.make("history", frames.ended(1, 0, 1, 2), frames.ended(2, 0, 1, 9))
        expected = frames.of(
            "queue string, ending string, rows long, last timestamp", ("queue 1", "confirmed", 2, at(9))
        )
        same(analyses.endings_by_queue(history, frames.make("queues")), expected)


class TestTopics:
    def test_a_topic_is_behind_by_its_slowest_subscriber(self, frames: Frames) -> None:
        tables = {
            "topics": frames.make("topics", {"topic_id": 1, "name": "prices"}, {"topic_id": 2, "name": "x"}),
            "topic_states": frames.make(
                "topic_states",
                {"topic_id": 1, "version": 1, "last_number": 4},
                {"topic_id": 1, "version": 2, "last_number": 10},
            ),
            "topic_messages": frames.make(
                "topic_messages",
                {"topic_id": 1, "kept": 1, "time_of_arrival": at(-20), "bytes": 3},
                {"topic_id": 1, "kept": 4, "time_of_arrival": at(-2), "bytes": 4},
            ),
            "subscriptions": frames.make(
                "subscriptions",
                {"subscription_id": 1, "topic_id": 1, "start_number": 0},
                {"subscription_id": 2, "topic_id": 1, "start_number": 7},
                {"subscription_id": 3, "topic_id": 1, "start_number": 0, "dropped_at": at(-1)},
            ),
            "positions": frames.make(
                "positions",
                {"subscription_id": 1, "version": 1, "position": 2},
                {"subscription_id": 1, "version": 2, "position": 8},
            ),
        }
        expected = frames.of(
            "topic string, put long, kept long, bytes long, subscribers long, behind_max long, "
            "oldest_s double",
            ("prices", 10, 5, 7, 2, 3, 20.0),
            ("x", 0, 0, 0, 0, 0, None),
        )
        same(analyses.backlog_by_topic(tables, at(0)), expected)


class TestConsumers:
    def test_work_is_put_beside_what_each_has(self, frames: Frames) -> None:
        tables = {
            "consumers": frames.make(
                "consumers",
                {"consumer_id": 7, "queue_id": 1, "client_id": 2, "middleware_id": 1},
                {"consumer_id": 8, "queue_id": 1, "client_id": 3, "middleware_id": 1},
            ),
            "leases": frames.make(
                "leases",
                {"consumer_id": 7, "handed_over_at": at(-4)},
                {"consumer_id": 7, "handed_over_at": at(-40)},
            ),
            "partitions": frames.make(
                "partitions", {"queue_id": 1, "owner_id": 7}, {"queue_id": 1, "owner_id": 0}
            ),
            "history": frames.make(
                "history",
                frames.ended(1, 0, 1, 3, consumer_id=7, ending="acknowledged"),
                frames.ended(2, 0, 1, 9, consumer_id=7, ending="returned"),
                frames.ended(3, 0, 1, 9),
            ),
            "queues": frames.make("queues", {"queue_id": 1, "name": "orders"}),
            "clients": frames.make("clients", {"client_id": 2, "name": "alice"}),
        }
        expected = frames.of(
            "queue string, consumer_id long, client string, middleware_id long, leased long, "
            "oldest_s double, partitions long, acknowledged long, returned long, held_s double",
            ("orders", 7, "alice", 1, 2, 40.0, 1, 1, 1, 2.0),
            ("orders", 8, "client 3", 1, 0, None, 0, 0, 0, None),
        )
        same(analyses.work_by_consumer(tables, at(0)), expected)


class TestResidence:
    def test_percentiles_are_of_processed_messages_by_priority(self, frames: Frames) -> None:
        rows = [frames.ended(i, 0, i, i + 1) for i in range(1, 1001)]
        rows.append(frames.ended(2000, 0, 5000, 5000, ending="returned"))
        rows.append(frames.ended(2001, 0, None, 7000, ending="expired"))
        rows.append(frames.ended(2002, 0, 3, 4, priority=9))
        found = analyses.residence_by_priority(frames.make("history", *rows))
        by_priority = {row["priority"]: row for row in found.collect()}
        ordinary = by_priority[5]
        assert ordinary["messages"] == 1000
        assert [ordinary[f"waited_{name}"] for name in ("p50", "p90", "p99", "p99_9", "max")] == [
            500.0,
            900.0,
            990.0,
            999.0,
            1000.0,
        ]
        assert ordinary["held_p50"] == 1.0
        assert by_priority[9]["waited_max"] == 3.0

    def test_percentiles_of_a_column_are_taken_from_one_summary(
        self, frames: Frames, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A summary for each of them would take longer than all the rest of a report."""
        analyses.residence_by_priority(frames.make("history")).explain()
        (partial,) = re.findall(r"functions=\[(partial_count.*)\]", capsys.readouterr().out)
        assert partial.count("percentile_approx(waited_s") == partial.count("percentile_approx(held_s") == 1

    def test_classes_of_waiting_times_are_even_on_a_logarithmic_scale(self, frames: Frames) -> None:
        waits = (0.0, 0.000_01, 1.0, 1.5, 1.6, 10.0)
        history = frames.make("history", *(frames.ended(i, 0, wait, 99) for i, wait in enumerate(waits)))
        found = analyses.wait_distribution(history).orderBy("from_s").collect()
        assert [(round(row["from_s"], 4), row["messages"]) for row in found] == [
            (0.0001, 2),
            (1.0, 2),
            (1.5849, 1),
            (10.0, 1),
        ]


class TestTraffic:
    def test_the_backlog_is_computed_back_from_what_is_there(self, frames: Frames) -> None:
        history = frames.make(
            "history",
            frames.ended(1, 0, 11, 12),
            frames.ended(2, 1, 21, 25, ending="dead"),
            frames.ended(3, 2, 3, 4, ending="returned"),
        )
        present = frames.make(
            "present", frames.there(3, 2), frames.there(4, 21), frames.there(2, 1, state="dead")
        )
        expected = frames.of(
            "moment timestamp, arrived long, ended long, backlog long",
            (at(0), 3, 0, 3),
            (at(10), 0, 1, 2),
            (at(20), 1, 1, 2),
        )
        same(analyses.traffic(history, present, 10), expected)

    def test_what_was_there_before_the_history_begins_is_in_the_backlog(self, frames: Frames) -> None:
        present = frames.make("present", *(frames.there(i, -1000) for i in range(5)), frames.there(9, 0))
        found = analyses.traffic(frames.make("history"), present, 10).orderBy("moment").collect()
        assert [row["backlog"] for row in found] == [5, 6]

    def test_intervals_bound_the_number_of_points(self) -> None:
        assert analyses.interval_for(0) == 1
        assert analyses.interval_for(299.9) == 1
        assert analyses.interval_for(300.0) == 5
        assert analyses.interval_for(7 * 86_400) == 3600

    def test_gaps_are_filled_with_nothing_and_the_backlog_stays(self) -> None:
        rows = [(at(0), 2, 0, 2), (at(30), 0, 1, 1)]
        assert analyses.filled(rows, 10) == [
            (at(0), 2, 0, 2),
            (at(10), 0, 0, 2),
            (at(20), 0, 0, 2),
            (at(30), 0, 1, 1),
        ]


class TestPartitions:
    def test_skew_is_told_by_the_largest_and_by_fairness(self, frames: Frames) -> None:
        def keyed(key: str, count: int) -> list[dict[str, object]]:
            return [{"queue_id": 1, "sender_id": 1, "partition_key": key}] * count

        waiting = frames.make("keyed_messages", *keyed("a", 5), *keyed("b", 1), *keyed("c", 2))
        leased = frames.make("leases", *keyed("a", 1), {"queue_id": 1, "sender_id": 1})
        expected = frames.of(
            "queue string, partitions long, messages long, largest long, largest_key string, "
            "largest_share double, fairness double",
            ("queue 1", 3, 9, 6, "a", 6 / 9, 81 / (3 * (36 + 1 + 4))),
        )
        same(analyses.skew_by_queue(waiting, leased, frames.make("queues")), expected)


class TestClients:
    def test_volume_counts_a_message_once_for_who_put_it(self, frames: Frames) -> None:
        history = frames.make(
            "history", frames.ended(1, 0, 1, 2), frames.ended(2, 0, 1, 2, ending="returned")
        )
        present = frames.make(
            "present", frames.there(2, 0, bytes=40), frames.there(8, 0, state="dead", bytes=7)
        )
        names = frames.make("clients", {"client_id": 1, "name": "alice"})
        expected = frames.of(
            "client string, put long, processed long, came_back long, bytes_waiting long",
            ("alice", 2, 0, 0, 40),
            ("client 2", 0, 1, 1, 0),
        )
        same(analyses.volume_by_client(history, present, names), expected)


class TestAudit:
    def test_totals_that_differ_from_what_is_there_are_found(self, frames: Frames) -> None:
        tables = {
            "put_states": frames.make(
                "put_states",
                {"queue_id": 1, "version": 1, "total": 5},
                {"queue_id": 1, "version": 2, "total": 7},
                {"queue_id": 2, "version": 1, "total": 3},
                {"queue_id": 3, "version": 1, "total": 2},
            ),
            "take_states": frames.make(
                "take_states",
                {"queue_id": 1, "version": 1, "total": 5},
                {"queue_id": 2, "version": 1, "total": 1},
                {"queue_id": 3, "version": 1, "total": 2},
            ),
        }
        present = frames.make(
            "present",
            frames.there(1, 0),
            frames.there(2, 0, state="delayed"),
            frames.there(3, 0, queue_id=2),
            frames.there(4, 0, queue_id=2, state="leased"),
        )
        expected = frames.of("queue_id long, counted long, there long", (2, 2, 1))
        same(audit.depth_differences(tables, present), expected)

    def test_a_message_that_two_rows_call_processed_is_found(self, frames: Frames) -> None:
        history = frames.make(
            "history",
            frames.ended(1, 0, 1, 2),
            frames.ended(1, 0, 3, 4, ending="acknowledged"),
            frames.ended(2, 0, 1, 2, ending="returned"),
            frames.ended(2, 0, 3, 4),
            frames.ended(1, 0, 3, 4, queue_id=2),
        )
        expected = frames.of("queue_id long, message_id long, times long", (1, 1, 2))
        same(audit.processed_twice(history), expected)

    def test_messages_that_two_rows_call_processed_are_found_wherever_they_stand_in_their_word(
        self, frames: Frames
    ) -> None:
        """Some words are full, some hold one id or two, and no id is taken for another one."""
        twice = [0, audit.WORD - 1, audit.WORD, 7 * audit.WORD + 1, (1 << 62) - 1]
        once = [*range(1, audit.WORD - 1), 5 * audit.WORD, 6 * audit.WORD + 1, 7 * audit.WORD + 2, 1 << 62]
        rows = [frames.ended(message_id, 0, 1, 2) for message_id in [*twice, *once, *twice]]
        found = audit.processed_twice(frames.make("history", *rows)).collect()
        assert sorted((row["message_id"], row["times"]) for row in found) == [(each, 2) for each in twice]

    def test_a_message_that_was_processed_and_is_there_is_found(self, frames: Frames) -> None:
        history = frames.make(
            "history", frames.ended(1, 0, 1, 2), frames.ended(2, 0, 1, 2, ending="returned")
        )
        present = frames.make(
            "present", frames.there(1, 0), frames.there(2, 0), frames.there(1, 0, queue_id=2)
        )
        expected = frames.of("queue_id long, message_id long, state string", (1, 1, "waiting"))
        same(audit.processed_and_present(history, present), expected)

    def test_who_read_before_an_older_one_is_found_over_stretches_too(self, frames: Frames) -> None:
        far = 3 * audit.STRETCH
        history = frames.make(
            "history",
            frames.ended(1, 0, 100, 101),
            frames.ended(2, 0, 50, 51),
            frames.ended(3, 0, 95, 96),
            frames.ended(far, 0, 60, 61),
            frames.ended(far + 1, 0, 200, 201),
            frames.ended(4, 0, 10, 11, priority=6),
            frames.ended(5, 0, 10, 11, redelivered=True),
            frames.ended(6, 0, 10, 11, consumer_id=1),
            frames.ended(7, 0, 10, 11, receiver_id=2),
        )
        expected = frames.of(
            "queue_id long, priority short, message_id long, by_s double", (1, 5, 2, 50.0), (1, 5, far, 40.0)
        )
        same(audit.overtaking(history), expected)
