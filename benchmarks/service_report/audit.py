"""Whether any message was lost, processed twice or overtaken, as far as the tables show.

- **Loss.** The states of a queue count the messages ever put and taken; the difference must be waiting.
- **Duplicates.** A message is processed once: at most one of its rows in the history says so, and then it is
  no longer there.
- **Order.** Among messages of a queue and priority the older comes first. Messages that were delayed, came
  back or were read by their sender may come later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from telesto.benchmarks.pages.page import Finding
from telesto.benchmarks.pages.section import Kind, Section, columns, duration, figures_of
from telesto.benchmarks.service_report.frames import DONE, Contents, newest

WAITING = ("waiting", "in_partitions", "delayed")
"""States that the totals of a queue count."""
ORDER_TOLERANCE_S = 10.0
"""The time of a delivery is taken before the locks that order it, so it may seem this much earlier."""
WORD = 64
"""Message ids in a word of bits."""
STRETCH = 65_536
"""Message ids in a range: order is checked within each range, and between ranges by their extremes."""


def depth_differences(tables: Mapping[str, DataFrame], present: DataFrame) -> DataFrame:
    """Queues whose states count a different number of waiting messages than there are, and both numbers."""
    put = newest(tables["put_states"], "queue_id").withColumnRenamed("total", "put")
    taken = newest(tables["take_states"], "queue_id").withColumnRenamed("total", "taken")
    there = present.where(F.col("state").isin(*WAITING)).groupBy("queue_id").agg(F.count("*").alias("there"))
    return (
        put.join(taken, "queue_id")
        .join(there, "queue_id", "left")
        .fillna(0, ["there"])
        .select("queue_id", (F.col("put") - F.col("taken")).alias("counted"), "there")
        .where(F.col("counted") != F.col("there"))
    )


def processed_twice(history: DataFrame) -> DataFrame:
    """Messages with more than one row that says that they were processed.

    Ids are unique over all queues, so WORD of them at a time are checked first: a word with fewer bits than
    rows has a duplicate. Usually there is none, and few rows have to be counted individually.
    """
    done = history.where(F.col("ending").isin(*DONE)).select(
        "queue_id", "message_id", F.floor(F.col("message_id") / WORD).alias("word")
    )
    bit = F.call_function("shiftleft", F.lit(1).cast("bigint"), F.pmod("message_id", F.lit(WORD)).cast("int"))
    words = (
        done.groupBy("word")
        .agg(F.count("*").alias("rows"), F.bit_count(F.bit_or(bit)).alias("bits"))
        .where(F.col("rows") > F.col("bits"))
    )
    doubtful = done.join(words, "word", "left_semi")
    return (
        doubtful.groupBy("queue_id", "message_id").agg(F.count("*").alias("times")).where(F.col("times") > 1)
    )


def processed_and_present(history: DataFrame, present: DataFrame) -> DataFrame:
    """Messages that were processed and are still there."""
    done = history.where(F.col("ending").isin(*DONE)).select("queue_id", "message_id")
    there = present.where(F.col("state") != "staged").select("queue_id", "message_id", "state")
    return there.join(done, ["queue_id", "message_id"], "left_semi")


def overtaking(history: DataFrame) -> DataFrame:
    """Messages that were read although an older one of their queue and priority was read later.

    Only first deliveries by reads are checked, of messages for anyone. The latest delivery among all older
    messages is found in two steps, so that many tasks share a large queue.
    """
    reads = history.where(
        F.col("ending").isin(*DONE)
        & F.col("consumer_id").isNull()
        & F.col("handed_over_at").isNotNull()
        & (F.col("receiver_id") == 0)
        & ~F.col("redelivered")
    ).select(
        "queue_id",
        "priority",
        "message_id",
        F.col("handed_over_at").cast("double").alias("handed"),
        F.floor(F.col("message_id") / STRETCH).alias("stretch"),
    )
    line = ("queue_id", "priority")
    before = Window.partitionBy(*line).orderBy("stretch").rowsBetween(Window.unboundedPreceding, -1)
    stretches = (
        reads.groupBy(*line, "stretch")
        .agg(F.max("handed").alias("latest"))
        .withColumn("latest_before", F.max("latest").over(before))
        .drop("latest")
    )
    within = (
        Window.partitionBy(*line, "stretch").orderBy("message_id").rowsBetween(Window.unboundedPreceding, -1)
    )
    latest = F.greatest(F.max("handed").over(within), F.col("latest_before"))
    return (
        reads.join(F.broadcast(stretches), [*line, "stretch"])
        .withColumn("older_read_at", latest)
        .where(F.col("older_read_at") > F.col("handed") + ORDER_TOLERANCE_S)
        .select(
            "queue_id", "priority", "message_id", (F.col("older_read_at") - F.col("handed")).alias("by_s")
        )
    )


EXAMPLES_MAX = 3


@dataclass(frozen=True, slots=True)
class _Check:
    name: str
    question: str
    found: DataFrame
    broken: bool
    """Whether a case breaks a guarantee; otherwise it only needs an explanation."""


def audit_part(contents: Contents) -> Section:
    """Check for loss, duplicates and order."""
    rows = []
    for check in _checks(contents):
        examples = check.found.limit(EXAMPLES_MAX).collect()
        found = len(examples) if len(examples) < EXAMPLES_MAX else check.found.count()
        told = "; ".join(
            ", ".join(f"{name} {value}" for name, value in row.asDict().items()) for row in examples
        )
        rows.append((check.name, check.question, found, "yes" if check.broken else "no", told))
    fields = (
        *columns(Kind.TEXT, check="check", question="question"),
        *columns(Kind.COUNT, "found"),
        *columns(Kind.TEXT, broken="would break a guarantee", examples="examples"),
    )
    return Section(
        "Audit: loss, duplicates, order",
        "What the tables show about the guarantees. The audit can check only what the history keeps: of a "
        "queue without a history it checks the totals only.",
        figures_of("audit", fields, rows),
    )


def findings_of(section: Section) -> list[Finding]:
    """The result of the audit in a sentence or two."""
    broken = [row for row in section.figures.rows if row[2] and row[3] == "yes"]
    odd = [row for row in section.figures.rows if row[2] and row[3] == "no"]
    findings = [
        Finding("bad", f"The audit found {row[2]:,} cases of: {row[1]}; for example {row[4]}.")
        for row in broken
    ]
    if not broken:
        findings.append(Finding("good", "The audit found no message lost and none processed twice."))
    findings += [Finding("note", f"{row[2]:,} cases of: {row[1]}; for example {row[4]}.") for row in odd]
    return findings


def _checks(contents: Contents) -> list[_Check]:
    tables, present = contents.tables, contents.present
    history = tables["history"]
    tolerance = duration(ORDER_TOLERANCE_S)
    return [
        _Check(
            "loss",
            "queues whose totals differ from the number of their messages",
            depth_differences(tables, present),
            True,
        ),
        _Check("duplicates", "messages processed more than once", processed_twice(history), True),
        _Check(
            "duplicates",
            "messages that were processed and are still there",
            processed_and_present(history, present),
            True,
        ),
        _Check(
            "order",
            f"messages read more than {tolerance} before an older one of their queue and priority "
            "(correct if that one was delayed, or read by its sender)",
            overtaking(history),
            False,
        ),
    ]
