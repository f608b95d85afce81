"""The sections of the report of a service: which figures, how they are shown, and what they mean."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from telesto.benchmarks.pages import plots
from telesto.benchmarks.pages.section import Field, Figures, Kind, Section, collect
from telesto.benchmarks.service_report import (
    clients,
    consumers,
    partitions,
    queues,
    residence,
    topics,
    traffic,
)
from telesto.benchmarks.service_report.columns import PERCENTILES
from telesto.benchmarks.service_report.contents import Contents

CLASSES_MAX = 100
"""Classes of waiting times; from SHORTEST_S to a year there are fewer."""
_STATE_TITLES = {
    "waiting": "waiting",
    "in_partitions": "in partitions",
    "delayed": "delayed",
    "staged": "staged by SQL",
    "handed_over": "handed over",
    "leased": "leased",
    "dead": "dead",
}


def traffic_part(contents: Contents) -> Section:
    """Arrivals, ends and backlog over time."""
    history = contents.tables["history"]
    first = contents.present.select("time_of_arrival").unionByName(history.select("time_of_arrival"))
    earliest = first.agg(F.min("time_of_arrival").cast("double")).collect()[0][0]
    now = contents.taken_at.timestamp()
    interval = traffic.interval_for(0.0 if earliest is None else now - earliest)
    figures = collect(
        traffic.traffic(history, contents.present, interval),
        "traffic",
        (
            Field("moment", "from (UTC)", Kind.MOMENT),
            Field("arrived", "arrived", Kind.COUNT),
            Field("ended", "ended", Kind.COUNT),
            Field("backlog", "there at the end", Kind.COUNT),
        ),
        ["moment"],
        2 * traffic.POINTS_MAX,
    )
    return Section(
        "Traffic and backlog",
        "How many messages came to the queues and how many left them for good, and how many were there: a "
        "backlog that grows while the rates differ means that readers are too slow or too few. Messages of "
        "queues without a history count only while they are there.",
        figures,
        _traffic_plot(figures, interval),
        f"Means over {interval} s each, of which the first and the last are not whole; times are UTC. "
        "What has left the history is not shown.",
        folded=True,
    )


def _traffic_plot(figures: Figures, interval_s: int) -> str | None:
    if not figures.rows:
        return None
    filled = traffic.filled(figures.rows, interval_s)
    rates = {
        "arrived": [arrived / interval_s for _, arrived, _, _ in filled],
        "ended": [ended / interval_s for _, _, ended, _ in filled],
    }
    return plots.over_time([row[0] for row in filled], rates, [row[3] for row in filled])


def contents_part(contents: Contents) -> Section:
    """What is in the queues."""
    frame = queues.contents_by_queue(contents.present, contents.tables["queues"], contents.taken_at)
    figures = collect(
        frame.withColumn("all", sum((F.col(state) for state in queues.STATES), F.lit(0))),
        "queues",
        (
            Field("queue", "queue", Kind.TEXT),
            *(Field(state, _STATE_TITLES[state], Kind.COUNT) for state in queues.STATES),
            Field("bytes", "bodies", Kind.BYTES),
            Field("oldest_s", "oldest", Kind.SECONDS),
            Field("all", "all", Kind.COUNT),
        ),
        [F.desc("all"), "queue"],
    )
    return Section(
        "Messages in the queues",
        "Where the messages of each queue stand: waiting for a reader, in the partition of a key, delayed, "
        "put by SQL and not placed yet, handed over and not confirmed, leased to a consumer, dead. The "
        "oldest is the one that came first of those that are not dead.",
        figures,
        _contents_plot(figures),
        "The queues with the most messages.",
    )


def _contents_plot(figures: Figures) -> str | None:
    rows = [row for row in figures.rows if row[-1]][: plots.NAMES_MAX]
    states = [state for state in queues.STATES if any(_at(figures, row, state) for row in rows)]
    if not rows:
        return None
    parts = {_STATE_TITLES[state]: [_at(figures, row, state) for row in rows] for state in states}
    return plots.stacked_bars([str(row[0]) for row in rows], parts, "messages")


def residence_part(contents: Contents) -> Section:
    """How long messages wait and are worked at, by priority."""
    names = [*PERCENTILES, "max"]
    titles = {"p50": "p50", "p90": "p90", "p99": "p99", "p99_9": "p99.9", "max": "max"}
    figures = collect(
        residence.residence_by_priority(contents.tables["history"]),
        "residence",
        (
            Field("priority", "priority", Kind.COUNT),
            Field("messages", "processed", Kind.COUNT),
            *(Field(f"waited_{name}", f"waited {titles[name]}", Kind.SECONDS) for name in names),
            *(Field(f"held_{name}", f"held {titles[name]}", Kind.SECONDS) for name in ("p50", "p99", "max")),
        ),
        [F.desc("priority")],
    )
    return Section(
        "Time in the queue by priority",
        "How long processed messages waited for the reader that was done with them, and how long that had "
        "them (held). Higher priorities should wait for less. A percentile p99 of 2 s says that 99 of 100 "
        "waited for 2 s or less.",
        figures,
        _residence_plot(figures, names, titles),
        "Waiting times of each priority from the median to the longest, on a logarithmic scale.",
    )


def _residence_plot(figures: Figures, names: list[str], titles: dict[str, str]) -> str | None:
    if not figures.rows:
        return None
    spans = [[_at(figures, row, f"waited_{name}") for name in names] for row in figures.rows]
    labels = [f"priority {row[0]}" for row in figures.rows]
    return plots.percentile_spans(labels, spans, [titles[name] for name in names])


def waits_part(contents: Contents) -> Section:
    """The distribution of waiting times."""
    figures = collect(
        residence.wait_distribution(contents.tables["history"]),
        "waits",
        (Field("from_s", "from", Kind.SECONDS), Field("messages", "messages", Kind.COUNT)),
        ["from_s"],
        CLASSES_MAX,
    )
    plot = None
    if figures.rows:
        starts = [_at(figures, row, "from_s") for row in figures.rows]
        counts = [_at(figures, row, "messages") for row in figures.rows]
        plot = plots.time_classes(starts, counts, residence.STEPS_PER_DECADE)
    return Section(
        "Distribution of waiting times",
        "How many messages waited for how long. Both scales are logarithmic, so that a few that waited for "
        "very long are seen beside millions that did not; a second hump is worth a question.",
        figures,
        plot,
        "Five classes to a factor of ten.",
        folded=True,
    )


def attempts_part(contents: Contents) -> Section:
    """How often messages were handed over before they were done with."""
    figures = collect(
        queues.attempts(contents.tables["history"]),
        "attempts",
        (
            Field("attempt", "attempt", Kind.COUNT),
            Field("done", "done", Kind.COUNT),
            Field("came_back", "came back", Kind.COUNT),
            Field("died", "died", Kind.COUNT),
        ),
        ["attempt"],
    )
    return Section(
        "Attempts",
        "What became of hand-overs, by which attempt each was: done with, come back to the queue (given "
        "back, run out, or its reader was lost), or the last one before the message died. Much beyond the "
        "first line means that consumers fail or their leases are too short.",
        figures,
    )


def endings_part(contents: Contents) -> Section:
    """How messages ended."""
    figures = collect(
        queues.endings_by_queue(contents.tables["history"], contents.tables["queues"]),
        "endings",
        (
            Field("queue", "queue", Kind.TEXT),
            Field("ending", "ending", Kind.TEXT),
            Field("rows", "messages", Kind.COUNT),
            Field("last", "last (UTC)", Kind.MOMENT),
        ),
        [F.desc("rows"), "queue", "ending"],
    )
    return Section(
        "How messages ended",
        "Over the days that the history keeps: confirmed by a reader, acknowledged by a consumer, taken "
        "without a record, returned (a hand-over that ended, while the message goes on), purged, expired, "
        "dead, or gone with their queue.",
        figures,
    )


def dead_part(contents: Contents) -> Section:
    """The dead letters by reason."""
    tables = contents.tables
    figures = collect(
        queues.dead_by_reason(tables["dead_letters"], tables["queues"], contents.taken_at),
        "dead_letters",
        (
            Field("queue", "queue", Kind.TEXT),
            Field("reason", "reason", Kind.TEXT),
            Field("letters", "letters", Kind.COUNT),
            Field("attempts_max", "attempts, most", Kind.COUNT),
            Field("oldest_s", "first died before", Kind.SECONDS),
        ),
        [F.desc("letters"), "queue", "reason"],
    )
    return Section(
        "Dead letters",
        "Messages that left their queues unprocessed, by the reason. They stay until they are sent back or "
        "deleted (telesto dead).",
        figures,
    )


def topics_part(contents: Contents) -> Section:
    """The topics and how far their subscribers are."""
    figures = collect(
        topics.backlog_by_topic(contents.tables, contents.taken_at),
        "topics",
        (
            Field("topic", "topic", Kind.TEXT),
            Field("put", "ever put", Kind.COUNT),
            Field("kept", "kept", Kind.COUNT),
            Field("bytes", "bodies", Kind.BYTES),
            Field("subscribers", "subscribers", Kind.COUNT),
            Field("behind_max", "last is behind by", Kind.COUNT),
            Field("oldest_s", "oldest kept", Kind.SECONDS),
        ),
        [F.desc("kept"), "topic"],
    )
    return Section(
        "Topics",
        "A message is kept until all who subscribed before it have confirmed it, so one subscriber that "
        "stays behind is what makes a topic grow.",
        figures,
    )


def consumers_part(contents: Contents) -> Section:
    """The consumers."""
    figures = collect(
        consumers.work_by_consumer(contents.tables, contents.taken_at),
        "consumers",
        (
            Field("queue", "queue", Kind.TEXT),
            Field("consumer_id", "consumer", Kind.TEXT),
            Field("client", "client", Kind.TEXT),
            Field("middleware_id", "middleware", Kind.TEXT),
            Field("leased", "leased", Kind.COUNT),
            Field("oldest_s", "oldest leased", Kind.SECONDS),
            Field("partitions", "partitions", Kind.COUNT),
            Field("acknowledged", "acknowledged", Kind.COUNT),
            Field("returned", "came back", Kind.COUNT),
            Field("held_s", "held, median", Kind.SECONDS),
        ),
        ["queue", F.desc("acknowledged"), "consumer_id"],
    )
    return Section(
        "Consumers",
        "Who consumes now: what each has leased, how many partitions are its own, and what it has done. One "
        "that holds an old message while others are quick hangs, or works at something large.",
        figures,
    )


def partitions_part(contents: Contents) -> Section:
    """How evenly keys share the messages."""
    tables = contents.tables
    figures = collect(
        partitions.skew_by_queue(tables["keyed_messages"], tables["leases"], tables["queues"]),
        "partitions",
        (
            Field("queue", "queue", Kind.TEXT),
            Field("partitions", "partitions", Kind.COUNT),
            Field("messages", "messages", Kind.COUNT),
            Field("largest", "in the largest", Kind.COUNT),
            Field("largest_key", "its key", Kind.TEXT),
            Field("largest_share", "its share", Kind.SHARE),
            Field("fairness", "fairness", Kind.RATIO),
        ),
        [F.desc("largest_share"), "queue"],
    )
    return Section(
        "Partitions",
        "How the messages that wait or are leased are spread over keys. A partition has one consumer at a "
        "time, so the largest bounds what more consumers can gain. Fairness is Jain's index: 1 when all "
        "partitions are alike, 1/n when one of n has everything.",
        figures,
    )


def clients_part(contents: Contents) -> Section:
    """The clients by volume."""
    frame = clients.volume_by_client(contents.tables["history"], contents.present, contents.tables["clients"])
    figures = collect(
        frame.withColumn("all", F.col("put") + F.col("processed")),
        "clients",
        (
            Field("client", "client", Kind.TEXT),
            Field("put", "put", Kind.COUNT),
            Field("processed", "processed", Kind.COUNT),
            Field("came_back", "came back", Kind.COUNT),
            Field("bytes_waiting", "bodies there", Kind.BYTES),
            Field("all", "all", Kind.COUNT),
        ),
        [F.desc("all"), "client"],
    )
    rows = figures.rows[: plots.NAMES_MAX]
    parts = {name: [_at(figures, row, name) for row in rows] for name in ("put", "processed")}
    return Section(
        "Clients by volume",
        "Who puts and who processes most, over what the history keeps and what is there.",
        figures,
        plots.stacked_bars([str(row[0]) for row in rows], parts, "messages") if rows else None,
        "The clients with the most messages put and processed.",
    )


def _at(figures: Figures, row: tuple[Any, ...], name: str) -> Any:
    return row[[field.name for field in figures.fields].index(name)]
