"""Whether anything was lost, handed over twice or overtaken, as far as the tables can tell.

- **Loss.** The states of a queue count what was ever put and ever taken; what they say is waiting has to be
  there.
- **Duplicates.** A message is processed once: no two of its rows in the history say so, and none is still
  there of which one says so.
- **Order.** Among equals the older goes first: no message that was read had to wait behind a later one of its
  queue and priority. What was delayed, came back or was read by its sender may rightly.
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
"""The time of a hand-over is taken before the locks that order it, so by so much one may seem earlier."""
WORD = 64
"""Message ids to a word of bits."""
STRETCH = 65_536
"""Message ids to a stretch: order is looked at within each, and between them by their extremes."""


def depth_differences(tables: Mapping[str, DataFrame], present: DataFrame) -> DataFrame:
    """Queues whose states count other messages as waiting than are there, and how many either way."""
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
    """Messages of which more than one row says that they were processed.

    Ids are numbers of all queues together, so they are first looked at WORD at a time: a word of which fewer
    bits are set than rows were seen has a message twice. As a rule there is none, and few rows are counted by
    themselves.
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
    """Messages that were processed and are there nevertheless."""
    done = history.where(F.col("ending").isin(*DONE)).select("queue_id", "message_id")
    there = present.where(F.col("state") != "staged").select("queue_id", "message_id", "state")
    return there.join(done, ["queue_id", "message_id"], "left_semi")


def overtaking(history: DataFrame) -> DataFrame:
    """Messages that were read although an older one of their queue and priority was read later.

    Looked at are first hand-overs by reads, of messages for anyone. The latest hand-over among all older
    messages is found in two steps, so that one large queue is the work of many.
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
    """Whether anything found breaks a guarantee; otherwise it only asks for an explanation."""


def audit_part(contents: Contents) -> Section:
    """Look for loss, duplicates and order."""
    rows = []
    for check in _checks(contents):
        examples = check.found.limit(EXAMPLES_MAX).collect()
        found = len(examples) if len(examples) < EXAMPLES_MAX else check.found.count()
        told = "; ".join(
            ", ".join(f"{name} {value}" for name, value in row.asDict().items()) for row in examples
        )
        rows.append((check.name, check.question, found, "yes" if check.broken else "no", told))
    fields = (
        *columns(Kind.TEXT, check="check", question="what is looked for"),
        *columns(Kind.COUNT, "found"),
        *columns(Kind.TEXT, broken="would break a guarantee", examples="examples"),
    )
    return Section(
        "Audit: loss, duplicates, order",
        "What the tables of this one moment say about the guarantees. Only what the history keeps can be "
        "looked at: a queue without a history is seen by its totals alone.",
        figures_of("audit", fields, rows),
    )


def findings_of(section: Section) -> list[Finding]:
    """The audit in a sentence or two."""
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
            "queues whose totals count other messages than are there",
            depth_differences(tables, present),
            True,
        ),
        _Check("duplicates", "messages processed more than once", processed_twice(history), True),
        _Check(
            "duplicates",
            "messages that were processed and are there nevertheless",
            processed_and_present(history, present),
            True,
        ),
        _Check(
            "order",
            f"messages read more than {tolerance} before an older one of their queue and priority "
            "(as it must be when that one was delayed, or read by its sender)",
            overtaking(history),
            False,
        ),
    ]
