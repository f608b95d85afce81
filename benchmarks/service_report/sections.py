"""The sections of the report of a service: figures, plots and explanations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from telesto.benchmarks.pages import plots
from telesto.benchmarks.pages.section import ROWS_MAX, Field, Figures, Kind, Section, collect, columns
from telesto.benchmarks.service_report import frames
from telesto.benchmarks.service_report.audit import audit_part
from telesto.benchmarks.service_report.frames import PERCENTILES, STATES, Contents

CLASSES_MAX = 100
"""Classes of waiting times; there are fewer from SHORTEST_S to a year."""
_STATE_TITLES = dict(zip(STATES, (state.replace("_", " ") for state in STATES), strict=True)) | {
    "staged": "staged by SQL"
}
_PERCENTILE_TITLES = {name: name.replace("_", ".") for name in (*PERCENTILES, "max")}


@dataclass(frozen=True, slots=True)
class Part:
    """A declared section.

    Attributes:
        key: of its figures.
        frame: makes the rows from the tables.
        order: columns by which the rows are sorted; a minus sorts the largest first.
        plot: draws figures that have rows.
    """

    key: str
    title: str
    meaning: str
    frame: Callable[[Contents], DataFrame]
    fields: tuple[Field, ...]
    order: tuple[str, ...]
    rows_max: int = ROWS_MAX
    plot: Callable[[Figures], str | None] = lambda _: None
    caption: str = ""
    folded: bool = False

    def section(self, contents: Contents) -> Section:
        """Make the section from the tables."""
        order = [F.desc(name[1:]) if name.startswith("-") else name for name in self.order]
        figures = collect(self.frame(contents), self.key, self.fields, order, self.rows_max)
        plot = self.plot(figures) if figures.rows else None
        return Section(self.title, self.meaning, figures, plot, self.caption, self.folded)


def traffic_part(contents: Contents) -> Section:
    """Arrivals, ends and backlog over time; the interval follows from the length of the history."""
    history = contents.tables["history"]
    first = contents.present.select("time_of_arrival").unionByName(history.select("time_of_arrival"))
    earliest = first.agg(F.min("time_of_arrival").cast("double")).collect()[0][0]
    now = contents.taken_at.timestamp()
    interval = frames.interval_for(0.0 if earliest is None else now - earliest)
    part = Part(
        "traffic",
        "Traffic and backlog",
        "How many messages came to the queues, how many ended, and how many were there. A growing backlog "
        "means that readers are too slow or too few. Messages of queues without a history count only while "
        "they are there.",
        lambda contents: frames.traffic(history, contents.present, interval),
        (
            Field("moment", "from (UTC)", Kind.MOMENT),
            *columns(Kind.COUNT, "arrived", "ended", backlog="there at the end"),
        ),
        ("moment",),
        2 * frames.POINTS_MAX,
        lambda figures: _traffic_plot(figures, interval),
        f"Means over {interval} s each; the first and the last interval are incomplete; times are UTC. "
        "Messages that have left the history are not shown.",
        folded=True,
    )
    return part.section(contents)


def _traffic_plot(figures: Figures, interval_s: int) -> str:
    filled = frames.filled(figures.rows, interval_s)
    rates = {
        "arrived": [arrived / interval_s for _, arrived, _, _ in filled],
        "ended": [ended / interval_s for _, _, ended, _ in filled],
    }
    return plots.over_time([row[0] for row in filled], rates, [row[3] for row in filled])


def _contents_by_queue(contents: Contents) -> DataFrame:
    frame = frames.contents_by_queue(contents.present, contents.tables["queues"], contents.taken_at)
    return frame.withColumn("all", sum((F.col(state) for state in STATES), F.lit(0)))


def _contents_plot(figures: Figures) -> str | None:
    rows = [row for row in figures.dicts() if row["all"]][: plots.NAMES_MAX]
    states = [state for state in STATES if any(row[state] for row in rows)]
    parts = {_STATE_TITLES[state]: [row[state] for row in rows] for state in states}
    return plots.stacked_bars([row["queue"] for row in rows], parts, "messages") if rows else None


def _residence_plot(figures: Figures) -> str:
    rows = figures.dicts()
    spans = [[row[f"waited_{name}"] for name in _PERCENTILE_TITLES] for row in rows]
    labels = [f"priority {row['priority']}" for row in rows]
    return plots.percentile_spans(labels, spans, list(_PERCENTILE_TITLES.values()))


def _waits_plot(figures: Figures) -> str:
    starts: Any = figures.column("from_s")
    counts: Any = figures.column("messages")
    return plots.time_classes(starts, counts, frames.STEPS_PER_DECADE)


def _volume_by_client(contents: Contents) -> DataFrame:
    frame = frames.volume_by_client(contents.tables["history"], contents.present, contents.tables["clients"])
    return frame.withColumn("all", F.col("put") + F.col("processed"))


def _clients_plot(figures: Figures) -> str:
    rows = figures.dicts()[: plots.NAMES_MAX]
    parts = {name: [row[name] for row in rows] for name in ("put", "processed")}
    return plots.stacked_bars([row["client"] for row in rows], parts, "messages")


QUEUES: Final = Part(
    "queues",
    "Messages in the queues",
    "The state of each queue's messages: waiting for a reader, in the partition of a key, delayed, put by "
    "SQL and not placed yet, delivered and not confirmed, leased to a consumer, dead. Oldest is the age of "
    "the first that came of those that are not dead.",
    _contents_by_queue,
    (
        *columns(Kind.TEXT, "queue"),
        *columns(Kind.COUNT, **_STATE_TITLES),
        *columns(Kind.BYTES, bytes="bodies"),
        *columns(Kind.SECONDS, oldest_s="oldest"),
        *columns(Kind.COUNT, "all"),
    ),
    ("-all", "queue"),
    plot=_contents_plot,
    caption="The queues with the most messages.",
)
RESIDENCE: Final = Part(
    "residence",
    "Time in the queue by priority",
    "How long processed messages waited, and how long their reader held them. Higher priorities should "
    "wait less. A p99 of 2 s means that 99 of 100 waited for 2 s or less.",
    lambda contents: frames.residence_by_priority(contents.tables["history"]),
    (
        *columns(Kind.COUNT, "priority", messages="processed"),
        *columns(
            Kind.SECONDS,
            **{f"waited_{name}": f"waited {title}" for name, title in _PERCENTILE_TITLES.items()},
        ),
        *columns(Kind.SECONDS, "held_p50", "held_p99", "held_max"),
    ),
    ("-priority",),
    plot=_residence_plot,
    caption="Waiting times of each priority from the median to the longest, on a logarithmic scale.",
)
WAITS: Final = Part(
    "waits",
    "Distribution of waiting times",
    "The number of messages by waiting time. Both scales are logarithmic, so that a few very long waits "
    "are visible among millions of short ones; a second peak is worth an investigation.",
    lambda contents: frames.wait_distribution(contents.tables["history"]),
    (*columns(Kind.SECONDS, from_s="from"), *columns(Kind.COUNT, "messages")),
    ("from_s",),
    CLASSES_MAX,
    _waits_plot,
    "Five classes to a factor of ten.",
    folded=True,
)
CONSUMERS: Final = Part(
    "consumers",
    "Consumers",
    "The current consumers: their leases, their partitions, and their work. A consumer that holds an old "
    "message while others are quick hangs, or works on something large.",
    lambda contents: frames.work_by_consumer(contents.tables, contents.taken_at),
    (
        *columns(Kind.TEXT, "queue", consumer_id="consumer", client="client", middleware_id="middleware"),
        *columns(Kind.COUNT, "leased"),
        *columns(Kind.SECONDS, oldest_s="oldest leased"),
        *columns(Kind.COUNT, "partitions", "acknowledged", returned="came back"),
        *columns(Kind.SECONDS, held_s="held, median"),
    ),
    ("queue", "-acknowledged", "consumer_id"),
)
PARTITIONS: Final = Part(
    "partitions",
    "Partitions",
    "How waiting and leased messages are spread over keys. A partition has one consumer at a time, so the "
    "largest one limits the gain from more consumers. Fairness is Jain's index: 1 if all partitions are "
    "equal, 1/n if one of n has everything.",
    lambda contents: frames.skew_by_queue(
        *(contents.tables[name] for name in ("keyed_messages", "leases", "queues"))
    ),
    (
        *columns(Kind.TEXT, "queue"),
        *columns(Kind.COUNT, "partitions", "messages", largest="in the largest"),
        *columns(Kind.TEXT, largest_key="its key"),
        *columns(Kind.SHARE, largest_share="its share"),
        *columns(Kind.RATIO, "fairness"),
    ),
    ("-largest_share", "queue"),
)
TOPICS: Final = Part(
    "topics",
    "Topics",
    "A message is kept until all earlier subscribers have confirmed it, so a single slow subscriber makes "
    "a topic grow.",
    lambda contents: frames.backlog_by_topic(contents.tables, contents.taken_at),
    (
        *columns(Kind.TEXT, "topic"),
        *columns(Kind.COUNT, put="ever put", kept="kept"),
        *columns(Kind.BYTES, bytes="bodies"),
        *columns(Kind.COUNT, "subscribers", behind_max="largest lag"),
        *columns(Kind.SECONDS, oldest_s="oldest kept"),
    ),
    ("-kept", "topic"),
)
CLIENTS: Final = Part(
    "clients",
    "Clients by volume",
    "The clients that put and process most, by the history and the current messages.",
    _volume_by_client,
    (
        *columns(Kind.TEXT, "client"),
        *columns(Kind.COUNT, "put", "processed", "came_back"),
        *columns(Kind.BYTES, bytes_waiting="bodies there"),
        *columns(Kind.COUNT, "all"),
    ),
    ("-all", "client"),
    plot=_clients_plot,
    caption="The clients with the most messages put and processed.",
)
ATTEMPTS: Final = Part(
    "attempts",
    "Attempts",
    "The outcome of deliveries by the number of the attempt: processed, returned to the queue (given back, "
    "expired, or the reader was lost), or the last one before the message died. Many after the first line "
    "mean that consumers fail or their leases are too short.",
    lambda contents: frames.attempts(contents.tables["history"]),
    columns(Kind.COUNT, "attempt", "done", "came_back", "died"),
    ("attempt",),
)
ENDINGS: Final = Part(
    "endings",
    "How messages ended",
    "By the history: confirmed by a reader, acknowledged by a consumer, taken without a record, returned (a "
    "delivery that ended, while the message continues), purged, expired, dead, or deleted with their queue.",
    lambda contents: frames.endings_by_queue(contents.tables["history"], contents.tables["queues"]),
    (
        *columns(Kind.TEXT, "queue", "ending"),
        *columns(Kind.COUNT, rows="messages"),
        *columns(Kind.MOMENT, last="last (UTC)"),
    ),
    ("-rows", "queue", "ending"),
)
DEAD: Final = Part(
    "dead_letters",
    "Dead letters",
    "Messages that left their queues unprocessed, by reason. They stay until they are sent back or deleted "
    "(telesto dead).",
    lambda contents: frames.dead_by_reason(
        contents.tables["dead_letters"], contents.tables["queues"], contents.taken_at
    ),
    (
        *columns(Kind.TEXT, "queue", "reason"),
        *columns(Kind.COUNT, "letters", attempts_max="attempts, most"),
        *columns(Kind.SECONDS, oldest_s="oldest"),
    ),
    ("-letters", "queue", "reason"),
)

PARTS: Final[tuple[Callable[[Contents], Section], ...]] = (
    traffic_part,
    *(part.section for part in (QUEUES, RESIDENCE, WAITS)),
    audit_part,
    *(part.section for part in (CONSUMERS, PARTITIONS, TOPICS, CLIENTS, ATTEMPTS, ENDINGS, DEAD)),
)
"""The sections, in the order of the page."""
