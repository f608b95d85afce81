"""How fast a large history is read and summarised with Spark, and how much memory that takes.

    python -m telesto.benchmarks.history_reading --directory /var/tmp
    python -m telesto.benchmarks.history_reading --rows 1000000 --parts 1 --spark spark.driver.memory=2g

Fills a database of its own, reads the history in so many parts at a time, then makes the report of the
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
from pathlib import Path
from typing import Any, Final

import psycopg

from telesto.benchmarks.history_rows import fill_history
from telesto.benchmarks.tiers.machine import describe_machine
from telesto.benchmarks.tiers.usage import cpu_seconds, peak_resident_bytes

ROWS: Final = 10_000_000
PARTS: Final = (1, 2, 4)
MASTER: Final = "spark.master=local[2]"
ROW_BYTES: Final = 500
"""Room on the disk for each row: table, index, log, and what Spark keeps."""
REPORT: Final = "report"
_MIB: Final = 2**20


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
        gateway = spark.sparkContext._gateway
        assert gateway is not None, "Spark runs in a process of its own"
        jvm: int = gateway.proc.pid
        before, begun = cpu_seconds([jvm]), time.monotonic()
        rows = _report(spark, url) if work == REPORT else _read(spark, url, int(work))
        return Figures(
            _name(work),
            rows,
            time.monotonic() - begun,
            cpu_seconds([jvm]) - before,
            peak_resident_bytes(jvm),
            peak_resident_bytes(os.getpid()),
        )


def _read(spark: Any, url: str, parts: int) -> int:
    from pyspark import StorageLevel

    from telesto.benchmarks.spark.reading import read_table
    from telesto.benchmarks.spark.snapshot import held_snapshot
    from telesto.benchmarks.spark.tables import TABLES

    history = TABLES["history"]
    with held_snapshot(url, [history], _tell) as snapshot:
        # As the report does it: all columns, to the disks of Spark.
        return int(read_table(spark, snapshot, history, parts).persist(StorageLevel.DISK_ONLY).count())


def _report(spark: Any, url: str) -> int:
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
    rows = [list(columns), ["---"] * len(columns), *([of(each) for of in columns.values()] for each in found)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _name(work: str) -> str:
    return "report of the service" if work == REPORT else f"reading in parts: {work}"


def _tell(warning: str) -> None:
    print(warning, file=sys.stderr)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m telesto.benchmarks.history_reading", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows of the history (default {ROWS})")
    parser.add_argument(
        "--parts", type=int, action="append", help="read in so many parts; may be repeated (default 1, 2, 4)"
    )
    parser.add_argument(
        "--spark",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"a setting of Spark besides {MASTER}; may be repeated",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to a file")
    parser.add_argument(
        "--directory", type=Path, help="where the database is made (default: the temporary directory)"
    )
    parser.add_argument("--work", default=REPORT, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
