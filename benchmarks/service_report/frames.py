"""The data of a report of a service: functions from data frames to data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F


@dataclass(frozen=True, slots=True)
class Contents:
    """The tables of one moment.

    Attributes:
        tables: by name, as in `tables.TABLES`.
        present: all unfinished messages.
        taken_at: the moment, by the server's clock.
        where: the server, for people.
    """

    tables: Mapping[str, DataFrame]
    present: DataFrame
    taken_at: datetime
    where: str


DONE = ("confirmed", "acknowledged", "unrecorded")
"""Endings of a message that was processed."""
RETURNED = "returned"
"""The ending of a delivery after which the message continues."""

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}
ACCURACY = 10_000
"""Of percentiles: the rank is exact within 1 / ACCURACY of the number of rows (Greenwald and Khanna,
Space-efficient online computation of quantile summaries, 2001), in constant memory."""


def seconds_between(earlier: str, later: str) -> Column:
    """The time between two columns of time, in seconds; at least 0, whatever a clock did."""
    return _not_below_0(F.col(later).cast("double") - F.col(earlier).cast("double"))


def age(column: str, taken_at: datetime) -> Column:
    """The age of the oldest in a column of times, in seconds, at the time of the snapshot; NULL for none."""
    return _not_below_0(F.lit(taken_at).cast("double") - F.min(column).cast("double"))


def _not_below_0(value: Column) -> Column:
    # Not `greatest`, which ignores NULL.
    return F.when(value < 0, 0.0).otherwise(value)


def percentiles(column: Column, prefix: str) -> list[Column]:
    """Percentiles and the largest value of a column, as columns of an aggregation."""
    # One expression for all, so that they share one summary.
    summary = F.percentile_approx(column, list(PERCENTILES.values()), ACCURACY)
    estimated = [summary[index].alias(f"{prefix}_{name}") for index, name in enumerate(PERCENTILES)]
    return [*estimated, F.max(column).alias(f"{prefix}_max")]


def counted_where(condition: Column) -> Column:
    """The number of rows of a group that meet a condition."""
    return F.count(F.when(condition, True))


def named(frame: DataFrame, names: DataFrame, key: str, column: str, kind: str) -> DataFrame:
    """Add a column with the name for a key; a deleted one is shown by its number."""
    known = names.select(F.col(key), F.col("name").alias(column))
    number = F.concat(F.lit(f"{kind} "), F.col(key).cast("string"))
    return frame.join(F.broadcast(known), key, "left").withColumn(column, F.coalesce(F.col(column), number))


def newest(frame: DataFrame, key: str) -> DataFrame:
    """The newest version for each key, as the states of queues and topics are kept."""
    others = [name for name in frame.columns if name not in (key, "version")]
    return frame.groupBy(key).agg(*(F.max_by(name, "version").alias(name) for name in others))


PRESENT = {
    "messages": "waiting",
    "keyed_messages": "in_partitions",
    "delayed_messages": "delayed",
    "staged_messages": "staged",
    "deliveries": "handed_over",
    "leases": "leased",
    "dead_letters": "dead",
}
"""The tables that hold messages, and the state of these."""
STATES = tuple(PRESENT.values())

_COLUMNS = ("queue_id", "message_id", "sender_id", "priority", "attempt", "time_of_arrival", "bytes")


def present_messages(tables: Mapping[str, DataFrame]) -> DataFrame:
    """All messages outside the history, one row each with its `state`."""
    parts = [tables[name].select(*_COLUMNS, F.lit(state).alias("state")) for name, state in PRESENT.items()]
    return reduce(DataFrame.unionByName, parts)


def contents_by_queue(present: DataFrame, queues: DataFrame, taken_at: datetime) -> DataFrame:
    """For each queue: messages by state, their bytes, the age in seconds of the oldest that is not dead."""
    alive = F.when(F.col("state") != "dead", F.col("time_of_arrival"))
    counted = (
        present.withColumn("alive_since", alive)
        .groupBy("queue_id")
        .agg(
            *(counted_where(F.col("state") == state).alias(state) for state in STATES),
            F.sum("bytes").alias("bytes"),
            age("alive_since", taken_at).alias("oldest_s"),
        )
    )
    every = queues.select("queue_id").join(counted, "queue_id", "full").fillna(0, [*STATES, "bytes"])
    return named(every, queues, "queue_id", "queue", "queue").select("queue", *STATES, "bytes", "oldest_s")


def endings_by_queue(history: DataFrame, queues: DataFrame) -> DataFrame:
    """For each queue and ending: the number of messages, and the time of the last."""
    counted = history.groupBy("queue_id", "ending").agg(
        F.count("*").alias("rows"), F.max("ended_at").alias("last")
    )
    return named(counted, queues, "queue_id", "queue", "queue").select("queue", "ending", "rows", "last")


def attempts(history: DataFrame) -> DataFrame:
    """By the number of the attempt: how many deliveries were processed, came back, or ended the message."""
    handed = history.where(F.col("handed_over_at").isNotNull())
    return handed.groupBy("attempt").agg(
        counted_where(F.col("ending").isin(*DONE)).alias("done"),
        counted_where(F.col("ending") == RETURNED).alias("came_back"),
        counted_where(F.col("ending") == "dead").alias("died"),
    )


def dead_by_reason(dead_letters: DataFrame, queues: DataFrame, taken_at: datetime) -> DataFrame:
    """The dead letters by queue and reason, with the age in seconds of the oldest.

    What consumers say of messages that they reject, behind a colon, is left out.
    """
    kind = F.substring_index("reason", ":", 1).alias("reason")
    counted = dead_letters.groupBy("queue_id", kind).agg(
        F.count("*").alias("letters"),
        F.max("attempt").alias("attempts_max"),
        age("died_at", taken_at).alias("oldest_s"),
    )
    return named(counted, queues, "queue_id", "queue", "queue").select(
        "queue", "reason", "letters", "attempts_max", "oldest_s"
    )


def totals(present: DataFrame, history: DataFrame, taken_at: datetime) -> DataFrame:
    """One row: messages alive and dead, the age in seconds of the oldest alive, messages processed."""
    alive = F.col("state") != "dead"
    there = present.withColumn("alive_since", F.when(alive, F.col("time_of_arrival"))).agg(
        counted_where(alive).alias("alive"),
        counted_where(~alive).alias("dead"),
        age("alive_since", taken_at).alias("oldest_s"),
    )
    return there.crossJoin(history.agg(counted_where(F.col("ending").isin(*DONE)).alias("processed")))


def backlog_by_topic(tables: Mapping[str, DataFrame], taken_at: datetime) -> DataFrame:
    """For each topic: messages ever put, messages kept, subscribers, the largest lag.

    The lag of a subscription is the last number of its topic less the number up to which it has confirmed.
    """
    last = newest(tables["topic_states"], "topic_id")
    kept = (
        tables["topic_messages"]
        .groupBy("topic_id")
        .agg(
            F.sum("kept").alias("kept"),
            F.sum("bytes").alias("bytes"),
            age("time_of_arrival", taken_at).alias("oldest_s"),
        )
    )
    behind = (
        _positions(tables)
        .join(last, "topic_id")
        .groupBy("topic_id")
        .agg(
            F.count("*").alias("subscribers"),
            F.max(F.greatest(F.col("last_number") - F.col("position"), F.lit(0))).alias("behind_max"),
        )
    )
    return (
        tables["topics"]
        .join(last, "topic_id", "left")
        .join(kept, "topic_id", "left")
        .join(behind, "topic_id", "left")
        .fillna(0, ["last_number", "kept", "bytes", "subscribers", "behind_max"])
        .select(
            F.col("name").alias("topic"),
            F.col("last_number").alias("put"),
            "kept",
            "bytes",
            "subscribers",
            "behind_max",
            "oldest_s",
        )
    )


def _positions(tables: Mapping[str, DataFrame]) -> DataFrame:
    """The active subscriptions and their positions."""
    owed = tables["subscriptions"].where(F.col("dropped_at").isNull())
    position = newest(tables["positions"], "subscription_id")
    standing = F.coalesce(F.col("position"), F.col("start_number"))
    return owed.join(position, "subscription_id", "left").select("topic_id", standing.alias("position"))


ACKNOWLEDGED = "acknowledged"


def work_by_consumer(tables: Mapping[str, DataFrame], taken_at: datetime) -> DataFrame:
    """For each current consumer: leases, partitions, and what it acknowledged and gave back.

    `held_s` is the median time from delivery to acknowledgement, in seconds; `oldest_s` the age of the oldest
    message that it has.
    """
    leased = (
        tables["leases"]
        .groupBy("consumer_id")
        .agg(F.count("*").alias("leased"), age("handed_over_at", taken_at).alias("oldest_s"))
    )
    owned = owned_partitions(tables["partitions"])
    done = worked(tables["history"])
    joined = tables["consumers"].select("consumer_id", "queue_id", "client_id", "middleware_id")
    for frame in (leased, owned, done):
        joined = joined.join(frame, "consumer_id", "left")
    filled = joined.fillna(0, ["leased", "partitions", "acknowledged", "returned"])
    with_queue = named(filled, tables["queues"], "queue_id", "queue", "queue")
    return named(with_queue, tables["clients"], "client_id", "client", "client").select(
        "queue",
        "consumer_id",
        "client",
        "middleware_id",
        "leased",
        "oldest_s",
        "partitions",
        "acknowledged",
        "returned",
        "held_s",
    )


def owned_partitions(partitions: DataFrame) -> DataFrame:
    """The number of partitions of each consumer."""
    return (
        partitions.where(F.col("owner_id") > 0)
        .groupBy(F.col("owner_id").alias("consumer_id"))
        .agg(F.count("*").alias("partitions"))
    )


def worked(history: DataFrame) -> DataFrame:
    """The work of each consumer by the history."""
    answered = F.col("ending") == ACKNOWLEDGED
    held = F.when(answered, seconds_between("handed_over_at", "ended_at"))
    return (
        history.where(F.col("consumer_id").isNotNull())
        .groupBy("consumer_id")
        .agg(
            counted_where(answered).alias("acknowledged"),
            counted_where(F.col("ending") == RETURNED).alias("returned"),
            F.percentile_approx(held, 0.5).alias("held_s"),
        )
    )


STEPS_PER_DECADE = 5
"""Classes of the distribution for each factor of ten."""
SHORTEST_S = 1e-4


def residence_by_priority(history: DataFrame) -> DataFrame:
    """For each priority: processed messages, percentiles of the wait and of the processing time, in seconds.

    A message waits from its arrival to the delivery after which it was processed; earlier deliveries count as
    waiting.
    """
    return (
        _processed(history)
        .groupBy("priority")
        .agg(
            F.count("*").alias("messages"),
            *percentiles(F.col("waited_s"), "waited"),
            *percentiles(F.col("held_s"), "held"),
        )
    )


def wait_distribution(history: DataFrame) -> DataFrame:
    """The number of messages by waiting time, in classes of equal width on a logarithmic scale.

    `from_s` is the beginning of a class; waits below SHORTEST_S are in the first.
    """
    waited = F.greatest(F.col("waited_s"), F.lit(SHORTEST_S))
    step = F.floor(F.log10(waited) * STEPS_PER_DECADE)
    begin = F.pow(F.lit(10.0), step / STEPS_PER_DECADE)
    return _processed(history).groupBy(begin.alias("from_s")).agg(F.count("*").alias("messages"))


def _processed(history: DataFrame) -> DataFrame:
    done = history.where(F.col("ending").isin(*DONE) & F.col("handed_over_at").isNotNull())
    return done.select(
        "priority",
        seconds_between("time_of_arrival", "handed_over_at").alias("waited_s"),
        seconds_between("handed_over_at", "ended_at").alias("held_s"),
    )


INTERVALS_S = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10800, 21600, 86400, 604800, 2592000, 31536000)
Point = tuple[datetime, int, int, int]
POINTS_MAX = 300
"""A curve has at most this many points, however long the history is."""


def interval_for(span_s: float) -> int:
    """The shortest interval, in seconds, of which POINTS_MAX cover the span."""
    return next((step for step in INTERVALS_S if span_s / step < POINTS_MAX), INTERVALS_S[-1])


def traffic(history: DataFrame, present: DataFrame, interval_s: int) -> DataFrame:
    """For each interval with events: messages that arrived, that ended, and the backlog at its end.

    The backlog is computed backwards: the messages there now, less those that came since, plus those that
    ended since. So it includes messages from before the history. Dead letters do not count: they ended when
    they died.
    """
    ended = history.where(F.col("ending") != RETURNED)
    alive = present.where(F.col("state") != "dead")
    events = (
        _events(ended, "time_of_arrival", interval_s, 1, 0)
        .unionByName(_events(alive, "time_of_arrival", interval_s, 1, 0))
        .unionByName(_events(ended, "ended_at", interval_s, 0, 1))
    )
    counted = events.groupBy("moment").agg(F.sum("arrived").alias("arrived"), F.sum("ended").alias("ended"))
    # There are few rows, so a window without a partition, which is a single task, does no harm.
    since = Window.orderBy(F.col("moment").desc()).rowsBetween(Window.unboundedPreceding, -1)
    change = F.coalesce(F.sum(F.col("arrived") - F.col("ended")).over(since), F.lit(0))
    now = alive.agg(F.count("*").alias("now"))
    return (
        counted.withColumn("change", change)
        .crossJoin(now)
        .select(
            F.timestamp_seconds("moment").alias("moment"),
            "arrived",
            "ended",
            (F.col("now") - F.col("change")).alias("backlog"),
        )
    )


def _events(frame: DataFrame, column: str, interval_s: int, arrived: int, ended: int) -> DataFrame:
    moment = F.floor(F.col(column).cast("double") / interval_s) * interval_s
    return frame.select(moment.alias("moment"), F.lit(arrived).alias("arrived"), F.lit(ended).alias("ended"))


def filled(rows: Sequence[Sequence[Any]], interval_s: int) -> list[Point]:
    """The rows of `traffic` with empty intervals in between, at most 2 * POINTS_MAX."""
    complete: list[Point] = []
    step = timedelta(seconds=interval_s)
    for moment, arrived, ended, backlog in rows:
        while complete and complete[-1][0] + step < moment and len(complete) < 2 * POINTS_MAX:
            complete.append((complete[-1][0] + step, 0, 0, complete[-1][3]))
        complete.append((moment, arrived, ended, backlog))
    return complete


def skew_by_queue(keyed: DataFrame, leases: DataFrame, queues: DataFrame) -> DataFrame:
    """For each queue with keys: partitions with messages, messages, the largest, and its share.

    `fairness` is Jain's index (Jain, Chiu, Hawe, A quantitative measure of fairness, 1984): the square of the
    sum of the sizes, divided by the number of partitions times the sum of their squares. It is 1 if all are
    equal, 1/n if one of n has everything.
    """
    columns = ("queue_id", "sender_id", "partition_key")
    held = keyed.select(*columns).unionByName(
        leases.where(F.col("partition_key").isNotNull()).select(*columns)
    )
    sizes = held.groupBy(*columns).agg(F.count("*").alias("size"))
    size = F.col("size").cast("double")
    counted = sizes.groupBy("queue_id").agg(
        F.count("*").alias("partitions"),
        F.sum("size").alias("messages"),
        F.max("size").alias("largest"),
        F.max_by("partition_key", "size").alias("largest_key"),
        (F.max("size") / F.sum("size")).alias("largest_share"),
        (F.pow(F.sum(size), F.lit(2.0)) / (F.count("*") * F.sum(size * size))).alias("fairness"),
    )
    return named(counted, queues, "queue_id", "queue", "queue").select(
        "queue", "partitions", "messages", "largest", "largest_key", "largest_share", "fairness"
    )


def volume_by_client(history: DataFrame, present: DataFrame, clients: DataFrame) -> DataFrame:
    """For each client: messages that it put, processed, and gave back; bytes of its waiting messages.

    Bodies of finished messages are kept only in queues with a `full` history, so bytes count unfinished ones.
    """
    over = history.where(F.col("ending") != RETURNED).groupBy(F.col("sender_id").alias("client_id"))
    waiting = present.where(F.col("state") != "dead").groupBy(F.col("sender_id").alias("client_id"))
    put = (
        over.agg(F.count("*").alias("put"), F.lit(0).cast("bigint").alias("bytes"))
        .unionByName(waiting.agg(F.count("*").alias("put"), F.sum("bytes").alias("bytes")))
        .groupBy("client_id")
        .agg(F.sum("put").alias("put"), F.sum("bytes").alias("bytes_waiting"))
    )
    taken = (
        history.where(F.col("client_id").isNotNull())
        .groupBy("client_id")
        .agg(
            counted_where(F.col("ending").isin(*DONE)).alias("processed"),
            counted_where(F.col("ending") == RETURNED).alias("came_back"),
        )
    )
    joined = put.join(taken, "client_id", "full").fillna(
        0, ["put", "bytes_waiting", "processed", "came_back"]
    )
    return named(joined, clients, "client_id", "client", "client").select(
        "client", "put", "processed", "came_back", "bytes_waiting"
    )
