"""How fast a large history is read and summarised with Spark, and how much memory that takes.

    python -m telesto.benchmarks.history_reading --directory /var/tmp
    python -m telesto.benchmarks.history_reading --rows 1000000 --parts 1 --spark spark.driver.memory=2g

Fills a database of its own with as many rows as a large service would leave in some days (a few queues have
most of the messages, priorities are spread around the middle, waits are those of readers that keep up and now
and then do not), reads the history in so many parts at a time, then makes the report of the
service from it, each by a Spark of its own.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import psycopg

from telesto.benchmarks.results.ratios import table as markdown_table
from telesto.benchmarks.tiers.machine import describe_machine
from telesto.benchmarks.tiers.usage import cpu_seconds, peak_resident_bytes

ROWS: Final = 10_000_000
PARTS: Final = (1, 2, 4)
MASTER: Final = "spark.master=local[2]"
ROW_BYTES: Final = 500
"""Room on the disk for each row: table, index, log, and what Spark keeps."""
REPORT: Final = "report"
_MIB: Final = 2**20

DAYS: Final = 7
QUEUES: Final = 20
CLIENTS: Final = 200
#: Rows of a transaction, so that a stream's turn has something to choose from.
ROWS_OF_A_COMMIT: Final = 50_000
_TURNS_MAX: Final = 10

_NAMES: Final = """
SELECT telesto.create_queue('queue ' || i) FROM generate_series(1, %(queues)s) AS i;
SELECT telesto.request_id('client ' || i) FROM generate_series(1, %(clients)s) AS i
"""
# Four numbers from 0 to 1 that look like chance decide all, and a message's id decides them: any two fillings
# are equal.
_ROWS: Final = """
INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, context, client_id, session,
                             number, consumer_id, time_of_arrival, handed_over_at, ended_at, drop_on, ending,
                             put_through, handed_over_through, attempt, priority, redelivered, reason)
SELECT drawn.i,
       %(first_queue)s + floor(%(queues)s * drawn.a * drawn.a * drawn.a)::bigint,
       %(first_client)s + floor(%(clients)s * drawn.b * drawn.b)::bigint,
       0, CASE WHEN drawn.b < 0.05 THEN drawn.i END,
       %(first_client)s + floor(%(clients)s * drawn.c)::bigint,
       1, drawn.i,
       CASE WHEN drawn.a > 0.7 THEN 1 + floor(20 * drawn.c)::bigint END,
       drawn.arrived, drawn.arrived + drawn.waited, drawn.arrived + drawn.waited + drawn.held,
       %(day)s::date,
       (CASE WHEN drawn.d < 0.005 THEN 'dead' WHEN drawn.d < 0.03 THEN 'returned'
             WHEN drawn.a > 0.7 THEN 'acknowledged' ELSE 'confirmed' END)::telesto.ending,
       1, 1,
       CASE WHEN drawn.d < 0.005 THEN 5 WHEN drawn.d < 0.06 THEN 2 ELSE 1 END,
       1 + floor(5 * drawn.b + 5 * drawn.c)::smallint,
       drawn.d < 0.06,
       CASE WHEN drawn.d < 0.03 THEN 'failed' END
FROM (
    SELECT chance.*, %(begin)s::timestamptz + %(step)s * (chance.i - %(first)s) AS arrived,
           interval '1 ms' * (0.5 + 20 * chance.c * chance.c
                              + 4000 * greatest(0, sin(chance.i / 20000::float8) - 0.9)) AS waited,
           interval '1 ms' * (0.2 - 30 * ln(chance.d + 1e-9)) AS held
    FROM (
        SELECT i, hashint8extended(i, 1) %% 1000003 / 2000006::float8 + 0.5 AS a,
               hashint8extended(i, 2) %% 1000003 / 2000006::float8 + 0.5 AS b,
               hashint8extended(i, 3) %% 1000003 / 2000006::float8 + 0.5 AS c,
               hashint8extended(i, 4) %% 1000003 / 2000006::float8 + 0.5 AS d
        FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS i
    ) AS chance
) AS drawn
"""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one piece of work took: seconds, CPU seconds of the JVM, and the most memory of each process."""

    what: str
    rows: int
    seconds: float
    jvm_cpu_s: float
    jvm_peak_bytes: int
    python_peak_bytes: int


def main() -> int:
    """Measure, and print a table."""
    given = _parse()
    if given.url:
        print(json.dumps(asdict(measure(given.work, given.url, given.spark))))
        return 0
    with tempfile.TemporaryDirectory(prefix="telesto-reading-", dir=given.directory) as name:
        directory = Path(name)
        free = shutil.disk_usage(directory).free
        if free < given.rows * ROW_BYTES:
            print(f"{directory} has {free // _MIB} MiB, and {given.rows * ROW_BYTES // _MIB} are needed")
            return 1
        # The embedded server may run under an account of its own, which has to pass.
        os.chmod(directory, 0o711)
        found = _measure_all(given, directory)
    print("\n".join(f"{name}: {value}" for name, value in describe_machine().items()))
    print(table(found))
    if given.json:
        given.json.write_text(json.dumps([asdict(each) for each in found], indent=2) + "\n")
    return 0


def _measure_all(given: argparse.Namespace, directory: Path) -> list[Figures]:
    from telesto.benchmarks.tiers.service import running_database

    with running_database(directory / "data") as url:
        begun = time.monotonic()
        fill_history(url, given.rows)
        print(f"{given.rows} rows were made in {time.monotonic() - begun:.0f} s", flush=True)
        works = [*map(str, given.parts or PARTS), REPORT]
        return [_in_process(work, url, given.spark) for work in works]


def _in_process(work: str, url: str, settings: Sequence[str]) -> Figures:
    """Measure by a process of its own: nothing is warm, and the peaks are of this work alone."""
    spark = [argument for setting in settings for argument in ("--spark", setting)]
    module = [sys.executable, "-m", "telesto.benchmarks.history_reading"]
    command = [*module, "--work", work, "--url", url, *spark]
    print(f"{_name(work)} ...", flush=True)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def measure(work: str, url: str, settings: Sequence[str]) -> Figures:
    """Do one piece of work with a Spark of its own.

    Args:
        work: how many parts the history is read in at a time, or `report`.
        url: a database that `fill_history` has filled.
        settings: of Spark, each as `spark.name=value`.
    """
    from telesto.benchmarks.spark.session import parse_settings, spark_session

    with spark_session(parse_settings([MASTER, *settings])) as spark:
        gateway = spark.sparkContext._gateway  # noqa: SLF001 - Spark offers no other way to its process
        assert gateway is not None, "Spark runs in a process of its own"
        jvm: int = gateway.proc.pid
        before, begun = cpu_seconds([jvm]), time.monotonic()
        rows = report(spark, url) if work == REPORT else read_history(spark, url, int(work))
        return Figures(
            _name(work),
            rows,
            time.monotonic() - begun,
            cpu_seconds([jvm]) - before,
            peak_resident_bytes(jvm),
            peak_resident_bytes(os.getpid()),
        )


def read_history(spark: Any, url: str, parts: int) -> int:
    """Read the history in so many parts at a time, as the report does; returns its rows."""
    from pyspark import StorageLevel

    from telesto.benchmarks.spark.reading import read_table
    from telesto.benchmarks.spark.snapshot import held_snapshot
    from telesto.benchmarks.spark.tables import TABLES

    history = TABLES["history"]
    with held_snapshot(url, [history], _tell) as snapshot:
        # As the report does it: all columns, to the disks of Spark.
        return int(read_table(spark, snapshot, history, parts).persist(StorageLevel.DISK_ONLY).count())


def report(spark: Any, url: str) -> int:
    """Make a report of the service; returns the rows of the history."""
    from telesto.benchmarks.service_report.report import service_report

    service_report(spark, url, warn=_tell)
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM telesto.history").fetchone()
        assert row is not None
        return int(row[0])


def table(found: Sequence[Figures]) -> str:
    """The figures as a table of Markdown."""
    columns: dict[str, Callable[[Figures], str]] = {
        "work": lambda each: each.what,
        "rows": lambda each: f"{each.rows:,}",
        "seconds": lambda each: f"{each.seconds:.1f}",
        "CPU of the JVM, s": lambda each: f"{each.jvm_cpu_s:.1f}",
        "JVM at most, MiB": lambda each: f"{each.jvm_peak_bytes / _MIB:.0f}",
        "Python at most, MiB": lambda each: f"{each.python_peak_bytes / _MIB:.0f}",
    }
    return markdown_table(list(columns), [[of(each) for of in columns.values()] for each in found])


def _name(work: str) -> str:
    return "report of the service" if work == REPORT else f"reading in parts: {work}"


def _tell(warning: str) -> None:
    print(warning, file=sys.stderr)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m telesto.benchmarks.history_reading", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help=f"number of history rows (default {ROWS})")
    parser.add_argument(
        "--parts", type=int, action="append", help="parallel reads; may be repeated (default 1, 2, 4)"
    )
    parser.add_argument(
        "--spark",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"a Spark setting in addition to {MASTER}; may be repeated",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to a file")
    parser.add_argument(
        "--directory", type=Path, help="directory for the database (default: the temporary directory)"
    )
    parser.add_argument("--work", default=REPORT, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    return parser.parse_args()


def fill_history(url: str, rows: int) -> None:
    """Create queues and clients, and end `rows` messages over the last DAYS days.

    Args:
        url: a database with the schema and nothing else in it.
        rows: how many.

    Raises:
        psycopg.Error: the database refuses.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        now = _one(connection, "SELECT now()")
        numbers: dict[str, Any] = {"queues": QUEUES, "clients": CLIENTS}
        for statement in _NAMES.split(";"):
            connection.execute(statement.encode(), numbers)
        numbers["first_queue"] = _one(connection, "SELECT min(queue_id) FROM telesto.queues")
        numbers["first_client"] = _one(connection, "SELECT min(client_id) FROM telesto.clients")
        for ago in range(DAYS, -1, -1):
            _make_partitions(connection, now - timedelta(days=ago))
        step = timedelta(days=DAYS) / max(rows, 1)
        for first in range(1, rows + 1, ROWS_OF_A_COMMIT):
            begin = now - timedelta(days=DAYS) + step * (first - 1)
            limits = {"first": first, "last": min(rows, first + ROWS_OF_A_COMMIT - 1)}
            moment = {"begin": begin, "step": step, "day": _day(connection, begin)}
            connection.execute(_ROWS.encode(), {**numbers, **limits, **moment})
        connection.execute("VACUUM (ANALYZE) telesto.history")


def _make_partitions(connection: psycopg.Connection, moment: datetime) -> None:
    for _ in range(_TURNS_MAX):
        if not _one(connection, "SELECT more FROM telesto.sweep_history(%s, 1000)", moment):
            return


def _day(connection: psycopg.Connection, moment: datetime) -> date:
    query = "SELECT telesto.history_day(telesto.known_history_days(), %s, 7::smallint)"
    found: date = _one(connection, query, moment.date())
    return found


def _one(connection: psycopg.Connection, query: str, *parameters: Any) -> Any:
    row = connection.execute(query.encode(), parameters or None).fetchone()
    assert row is not None
    return row[0]


if __name__ == "__main__":
    sys.exit(main())
