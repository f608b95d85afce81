"""`telesto report service|stability|scalability|factorial|archive`: reports with Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from telesto.cli.common.durations import duration_option
from telesto.cli.common.options import DEFAULT_DATA_DIRECTORY, DatabaseUrl, DataDirectory
from telesto.cli.terminal import output
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError

if TYPE_CHECKING:
    from telesto.benchmarks.pages.page import Report
    from telesto.benchmarks.spark.tables import Table

EXTRA = "telesto report needs Spark: pip install 'telesto-mq[reports]', and Java 17 or later"


class NewTimeline(StrEnum):
    """What to do if a standby was promoted since the last batch of a stream."""

    FAIL = "fail"
    CONTINUE = "continue"


Out = Annotated[
    Path, typer.Option("--out", metavar="DIRECTORY", help="The directory of the report; new or empty.")
]
Replace = Annotated[bool, typer.Option("--replace", help="Replace an existing report.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--spark",
        metavar="NAME=VALUE",
        help="A setting of Spark, such as spark.master=local[2] or spark.driver.memory=4g; repeatable.",
    ),
]
DriverJar = Annotated[
    Path | None,
    typer.Option(
        "--driver-jar",
        envvar="TELESTO_JDBC_DRIVER",
        metavar="FILE",
        help="PostgreSQL's JDBC driver. Default: that of libpostgresql-jdbc-java, or else a download by "
        "Spark.",
    ),
]


def service(
    out: Out,
    database_url: DatabaseUrl = None,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    replace: Replace = False,
    hold_warning: Annotated[
        float,
        duration_option(
            "--hold-warning", least=1.0, help="Warn when a busy primary holds the snapshot for longer."
        ),
    ] = 300.0,
    driver_jar: DriverJar = None,
    spark: Settings = None,
) -> None:
    """Report on a live service from its database: one page, and its figures as CSV.

    It reads all messages and the history in one snapshot. The login needs only the role telesto_reader, and a
    standby is the best source.
    """
    with _explained_failures():
        from telesto.benchmarks.service_report.report import STEPS, service_report
        from telesto.benchmarks.spark.session import require_setup, spark_session
        from telesto.benchmarks.spark.tables import TABLES
        from telesto.cli.admin.database import database_for, explained_errors

        settings = _checked(out, replace, spark)
        require_setup(driver_jar)
        with (
            database_for(database_url, data_dir, as_owner=False) as url,
            explained_errors(url),
            _readable(url, TABLES.values()),
            spark_session(settings, driver_jar) as session,
        ):
            _write(
                out,
                STEPS,
                lambda step: service_report(
                    session, url, warn=output.print_error, step=step, hold_warning_s=hold_warning
                ),
            )


def stability(
    runs: Annotated[
        Path, typer.Argument(help="The directory of an experiment (`telesto bench run`).", metavar="RUNS")
    ],
    out: Out,
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance",
            metavar="PERCENT",
            min=0.1,
            max=100.0,
            help="In a stable run, no series changes by more than this share of its median.",
        ),
    ] = 10.0,
    stall_below: Annotated[
        float,
        typer.Option(
            "--stall-below",
            metavar="PERCENT",
            min=1.0,
            max=100.0,
            help="A second below this share of the median throughput is a stall.",
        ),
    ] = 50.0,
    replace: Replace = False,
    spark: Settings = None,
) -> None:
    """Report how the runs of an experiment went over time: one page, and its figures as CSV.

    It shows throughput, response time, backlog, processors, memory and the work of PostgreSQL over time. It
    tests for drift, lists stalls, and gives a verdict with its reasons.
    """
    with _explained_failures():
        from telesto.benchmarks.run_data.runs import open_runs
        from telesto.benchmarks.spark.session import spark_session
        from telesto.benchmarks.stability_report.report import STEPS, stability_report
        from telesto.benchmarks.stability_report.verdict import Limits

        settings = _checked(out, replace, spark)
        found, limits = open_runs(runs), Limits(tolerance / 100, stall_below / 100)
        with spark_session(settings, database=False) as session:
            _write(out, STEPS, lambda step: stability_report(session, found, limits, step))


def archive(
    out: Annotated[
        str,
        typer.Option(
            "--out", metavar="PLACE", help="The archive: a directory, or a URL that Spark can write to."
        ),
    ],
    database_url: DatabaseUrl = None,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    file_format: Annotated[
        str,
        typer.Option("--format", metavar="FORMAT", help="A file format that Spark can write as a stream."),
    ] = "parquet",
    new_timeline: Annotated[
        NewTimeline,
        typer.Option("--new-timeline", help="What to do if a standby was promoted since the last time."),
    ] = NewTimeline.FAIL,
    driver_jar: DriverJar = None,
    spark: Settings = None,
) -> None:
    """Append the new history of messages to an archive, each row once.

    Run it more often than the shortest `history_days` of any queue. It can be stopped at any time; the next
    run continues where the last one ended.
    """
    with _explained_failures():
        from telesto.benchmarks.spark.archive import add_to_archive
        from telesto.benchmarks.spark.session import parse_settings, require_setup, spark_session
        from telesto.benchmarks.spark.stream import TABLE
        from telesto.cli.admin.database import database_for, explained_errors

        settings = parse_settings(spark or [])
        require_setup(driver_jar)
        with (
            database_for(database_url, data_dir, as_owner=False) as url,
            explained_errors(url),
            _readable(url, [TABLE]),
            spark_session(settings, driver_jar) as session,
        ):
            rows = add_to_archive(session, url, out, file_format=file_format, new_timeline=new_timeline.value)
    output.print_line(f"{rows} rows added to {out}")


def scalability(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUNS...", help="Directories of experiments (`telesto bench run`)."),
    ],
    out: Out,
    replace: Replace = False,
    spark: Settings = None,
) -> None:
    """Report how throughput scales with each numeric factor: one page, and its figures as CSV.

    It shows throughput and response time with intervals, bounds and laws, the bottleneck, and a model next to
    the measurements.
    """
    with _explained_failures():
        from telesto.benchmarks.run_data.runs import open_runs
        from telesto.benchmarks.scalability_report.report import STEPS_OF_RUNS, scalability_report
        from telesto.benchmarks.spark.session import spark_session

        settings = _checked(out, replace, spark)
        # Faults of the runs are reported before Spark starts, which takes seconds.
        for path in runs:
            open_runs(path)
        with spark_session(settings, database=False) as session:
            _write(out, STEPS_OF_RUNS * len(runs), lambda step: scalability_report(session, runs, step))


def factorial(
    runs: Annotated[
        Path, typer.Argument(metavar="RUNS", help="The directory of an experiment (`telesto bench run`).")
    ],
    out: Out,
    replace: Replace = False,
    log: Annotated[
        bool, typer.Option("--log", help="Analyse logarithms, for effects that multiply.")
    ] = False,
    spark: Settings = None,
) -> None:
    """Report on an experiment with two levels of each factor (2^k r): one page, and its figures as CSV.

    It shows how much each factor, and each interaction, explains of throughput and response time.
    """
    with _explained_failures():
        from telesto.benchmarks.run_data.runs import open_runs
        from telesto.benchmarks.scalability_report import factorial as design
        from telesto.benchmarks.spark.session import spark_session

        settings = _checked(out, replace, spark)
        design.design_of(open_runs(runs))
        with spark_session(settings, database=False) as session:
            _write(
                out,
                design.STEPS_OF_REPORT,
                lambda step: design.factorial_report(session, runs, logarithms=log, step=step),
            )


def _checked(out: Path, replace: bool, spark: list[str] | None) -> dict[str, str]:
    """Check that a report can go to `out`, before the work; return the settings of Spark."""
    from telesto.benchmarks.pages.page import require_place
    from telesto.benchmarks.spark.session import parse_settings

    require_place(out, replace)
    return parse_settings(spark or [])


def _write(out: Path, steps: int, make: Callable[[Callable[[], None]], Report]) -> None:
    """Make a report in so many steps, with a progress bar; write it, and print its summary."""
    from telesto.benchmarks.pages.page import PAGE, write_report
    from telesto.cli.terminal.progress import progress_of

    with progress_of("reading and computing", steps) as progress:
        report = make(lambda: progress.advance(1))
    write_report(report, out)
    output.print_line(report.as_text())
    output.print_line(f"written to {out / PAGE}")


@contextmanager
def _readable(url: str, tables: Iterable[Table]) -> Iterator[None]:
    """Check that the database can be read before Spark starts."""
    from telesto.benchmarks.spark.snapshot import require_source

    require_source(url, tables)
    yield


@contextmanager
def _explained_failures() -> Iterator[None]:
    try:
        from telesto.benchmarks.spark.errors import ReportError, RunsError, SourceError, SparkSetupError

        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "telesto":
            raise
        raise CommandError(f"{EXTRA} (there is no {error.name})", ExitCode.USAGE) from error
    except (SparkSetupError, RunsError) as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
    except SourceError as error:
        raise CommandError(str(error), ExitCode.UNREACHABLE) from error
    except ReportError as error:
        raise CommandError(str(error), ExitCode.REFUSED) from error
    except OSError as error:
        raise CommandError(f"cannot write the report: {error}", ExitCode.REFUSED) from error


HELP = "Write reports on a service or on experiments (with Spark)."
SUBCOMMANDS = {
    "service": service,
    "stability": stability,
    "archive": archive,
    "scalability": scalability,
    "factorial": factorial,
}
