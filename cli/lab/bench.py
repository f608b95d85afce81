"""`telesto bench run|list|show|database|peers`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from telesto.cli.common.options import Json
from telesto.cli.lab.bench_peers import peers
from telesto.cli.terminal import output
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError

Directory = Annotated[Path, typer.Argument(help="The directory of an experiment.", metavar="DIR")]


def run(
    experiment: Annotated[
        str, typer.Argument(help="A TOML file, or the name of an included experiment.", metavar="FILE")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="For all results; new, or to continue.")],
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Change a setting; name=[value, value] varies it. Repeatable."
        ),
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option("--repetitions", help="Runs of each combination of levels.")
    ] = None,
    keep_databases: Annotated[
        bool | None,
        typer.Option(
            "--keep-databases/--drop-databases", help="Keep or drop each run's database, with its history."
        ),
    ] = None,
    server_url: Annotated[
        str | None,
        typer.Option(
            "--server-url",
            metavar="URL",
            help="A PostgreSQL on this machine where databases may be created. Default: the experiment's "
            "own.",
        ),
    ] = None,
) -> ExitCode:
    """Run an experiment, unattended. Repeat the command with the same directory to continue it."""
    with explained_errors():
        from telesto.benchmarks.harness.execution import carry_out
        from telesto.benchmarks.harness.experiment import load_experiment
        from telesto.benchmarks.harness.summary import is_clean, summarise
        from telesto.cli.lab.bench_progress import shown_progress
        from telesto.cli.terminal.stopping import run_to_its_end

        wanted = load_experiment(experiment, assignments or (), repetitions, keep_databases=keep_databases)
        with shown_progress() as listener:
            path = out.expanduser().resolve()
            directory = run_to_its_end(carry_out(wanted, path, listener, server_url))
        output.print_line(summarise(directory))
    return ExitCode.DONE if is_clean(directory) else ExitCode.REFUSED


def list_experiments(as_json: Json = False) -> None:
    """List the included experiments."""
    with explained_errors():
        from telesto.benchmarks.harness.experiment import combinations, load_experiment, ready_experiments

        for name in ready_experiments():
            experiment = load_experiment(name)
            runs = len(combinations(experiment)) * experiment.repetitions
            if as_json:
                output.print_json(
                    {"name": name, "title": experiment.title, "runs": runs, "factors": experiment.varied}
                )
            else:
                varied = ", ".join(experiment.varied) or "nothing"
                output.print_line(f"{name:<18} {experiment.title} ({runs} runs, varies {varied})")


def show(directory: Directory, as_json: Json = False) -> ExitCode:
    """Show the figures and the audit of an experiment, also of an incomplete one."""
    with explained_errors():
        from telesto.benchmarks.harness.manifest import open_directory
        from telesto.benchmarks.harness.summary import is_clean, summarise

        found = open_directory(directory)
        if as_json:
            for each in found.runs:
                if found.is_complete(each):
                    output.print_json(found.result_of(each))
        else:
            output.print_line(summarise(found))
        return ExitCode.DONE if is_clean(found) else ExitCode.REFUSED


def database(directory: Directory) -> None:
    """Run the PostgreSQL of an experiment until Ctrl-C, and print the URL of each run's database.

    The history of the messages is in the tables of the schema telesto, as in a live service.
    """
    with explained_errors():
        from telesto.benchmarks.harness.manifest import open_directory
        from telesto.benchmarks.tiers.service import running_server, with_database

        found = open_directory(directory)
        names = [found.result_of(each)["database"] for each in found.runs if found.is_complete(each)]
        kept = [name for name in names if name is not None]
        if not kept:
            raise CommandError(f"{directory} has no database of a whole run", ExitCode.NOTHING)
        with running_server(found.path.resolve()) as url:
            for name in kept:
                output.print_line(with_database(url, name))
            output.print_note("running until Ctrl-C")
            _wait()


def _wait() -> None:
    import threading

    threading.Event().wait()


@contextmanager
def explained_errors() -> Iterator[None]:
    """Turn errors into a line for the user."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise CommandError(
            f"the Python library {error.name!r} is missing; this needs: pip install 'telesto-mq[bench]'",
            ExitCode.INTERNAL,
        ) from error
    except Exception as error:
        explained = _explained(error)
        if explained is None:
            raise
        raise explained from error


def _explained(error: Exception) -> CommandError | None:
    from telesto.benchmarks.harness.experiment import BadExperimentError
    from telesto.benchmarks.harness.manifest import ManifestError
    from telesto.benchmarks.harness.one_run import OpenFilesError
    from telesto.benchmarks.load.worker import WorkerFailedError
    from telesto.benchmarks.tiers.service import MiddlewareFailedError, NotLocalError
    from telesto.db.embedded.errors import DataDirectoryInUseError, EmbeddedServerError

    if isinstance(error, BadExperimentError | ManifestError | OpenFilesError):
        return CommandError(str(error), ExitCode.USAGE)
    if isinstance(error, DataDirectoryInUseError):
        return CommandError(str(error), ExitCode.IN_USE)
    if isinstance(error, EmbeddedServerError | NotLocalError):
        return CommandError(str(error), ExitCode.UNREACHABLE)
    if isinstance(error, MiddlewareFailedError | WorkerFailedError):
        return CommandError(f"{error}; whole runs stay: give the command again", ExitCode.REFUSED)
    return None


HELP = "Measure the service, with an audit of every run."
SUBCOMMANDS = {"run": run, "list": list_experiments, "show": show, "database": database, "peers": peers}
