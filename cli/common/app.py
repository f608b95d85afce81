"""The `telesto` command: its subcommands, and how each one ends.

A command's module is loaded only for that command, because each option adds to the start-up time. The full
list is loaded for the help and for an unknown command.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer

from telesto.cli.common import variables
from telesto.cli.common.conversion import skip_needless_conversions
from telesto.cli.common.options import STATE_DIR_VARIABLE, note_state_dir
from telesto.cli.common.patience import with_patience
from telesto.cli.terminal import exit_codes, output
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError, OutputClosedError
from telesto.cli.terminal.interrupts import take_over
from telesto.version import VERSION

COMMANDS = {
    "serve": "serve.serve",
    "db": "admin.db",
    "backup": "admin.backup",
    "restore": "admin.backup",
    "queue": "admin.queue",
    "put": "messages.put",
    "get": "messages.get",
    "consume": "messages.consume",
    "browse": "messages.browse",
    "worker": "worker.worker",
    "topic": "messages.topic",
    "client": "admin.client",
    "consumer": "admin.consumer",
    "middleware": "admin.middleware",
    "dead": "admin.dead",
    "user": "admin.user",
    "message": "messages.message",
    "audit": "admin.audit",
    "bench": "lab.bench",
    "report": "lab.report",
    "ping": "admin.ping",
    "demo": "demo.demo",
    "version": "common.version",
}
"""The first word of a command and its module, in the order of the help. The module has a function of that
name, or the SUBCOMMANDS of a group and their HELP."""

TRACEBACK_VARIABLE = "TELESTO_TRACEBACK"
QUOTES_HINT = "; a message of several words goes in quotes"


def execute(arguments: list[str]) -> int:
    """Run the command line `arguments` (without the program's name) and return the exit status."""
    take_over()
    skip_needless_conversions()
    try:
        result = build(arguments)(args=arguments, prog_name="telesto", standalone_mode=False)
    except CommandError as error:
        output.print_error(error.message, error.lines)
        return error.code
    except OutputClosedError:
        _discard_output()
        return ExitCode.OUTPUT_CLOSED
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except typer.Abort:
        return ExitCode.INTERRUPTED
    except typer.TyperException as error:
        return _report_usage(error)
    except Exception as error:  # noqa: BLE001 - the last resort: a line instead of a traceback
        return _report_failure(error)
    return result if isinstance(result, int) else ExitCode.DONE


def build(arguments: list[str]) -> typer.Typer:
    """The command line with the command that `arguments` name, or with all of them.

    The list of them in `telesto --help` has neither their options nor what is below groups, which take long.
    """
    root = typer.Typer(
        name="telesto",
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=exit_codes.as_help_text(),
    )
    root.callback(help="A message queue service on PostgreSQL.")(_root)
    asked = arguments[0] if arguments else ""
    only_listed = arguments in (["--help"], ["-h"])
    for word in [asked] if asked in COMMANDS else COMMANDS:
        module = import_module(f"telesto.cli.{COMMANDS[word]}")
        subcommands: dict[str, Any] = getattr(module, "SUBCOMMANDS", {})
        if not subcommands:
            command = getattr(module, word)
            if only_listed:
                root.command(word, help=command.__doc__)(_do_nothing)
            else:
                root.command(word)(with_patience(command))
            continue
        group = typer.Typer(no_args_is_help=True, help=module.HELP)
        # With a callback, a group of a single command stays a group.
        group.callback()(_do_nothing)
        for name, command in () if only_listed else subcommands.items():
            group.command(name)(with_patience(command))
        root.add_typer(group, name=word)
    return root


def _do_nothing() -> None:
    """Stand for a command that is only listed, and for the callback of a group."""


def _print_version(asked: bool) -> None:
    if asked:
        output.print_line(f"telesto {VERSION}")
        raise typer.Exit


def _root(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit."),
    ] = False,
    _state_dir: Annotated[
        str | None,
        typer.Option(
            "--state-dir",
            envvar=STATE_DIR_VARIABLE,
            callback=note_state_dir,
            metavar="DIR",
            help="The directory for the states of named clients (--client). Default: "
            "~/.local/state/telesto/states.",
        ),
    ] = None,
) -> None:
    """Handle the options before the command."""
    if context.invoked_subcommand != "serve":  # which tells it in its log
        variables.print_unknown()


def _discard_output() -> None:
    """Discard further output, so that Python does not complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), output.STANDARD_OUTPUT)


def _report_usage(error: typer.TyperException) -> ExitCode:
    message = _misplaced_option(error) or error.format_message()
    command = getattr(getattr(error, "ctx", None), "command_path", "telesto")
    if message:
        hint = QUOTES_HINT if message.startswith("Got unexpected extra") and command.endswith(" put") else ""
        output.print_error(f"{message.rstrip('.')}{hint} (see: {command} --help)")
    return ExitCode.USAGE


def _misplaced_option(error: typer.TyperException) -> str | None:
    """The message for an option on the wrong side of the command."""
    context, name = getattr(error, "ctx", None), getattr(error, "option_name", None)
    if context is None or name is None or not error.format_message().startswith("No such option"):
        return None
    path = context.command_path
    if (option := _option_below(context.command, name)) is not None:
        return f"the option {name} goes behind the command: {path} COMMAND ... {_usage(name, option)}"
    while (context := context.parent) is not None:
        if (option := _option_of(context.command, name)) is not None:
            above, words = context.command_path, path.removeprefix(context.command_path)
            return f"the option {name} goes before the command: {above} {_usage(name, option)}{words}"
    return None


def _option_below(group: Any, name: str) -> Any:
    for command in getattr(group, "commands", {}).values():
        if (found := _option_of(command, name) or _option_below(command, name)) is not None:
            return found
    return None


def _option_of(command: Any, name: str) -> Any:
    return next((option for option in command.params if name in option.opts), None)


def _usage(name: str, option: Any) -> str:
    return f"{name} {option.metavar}" if option.metavar else name


def _report_failure(error: Exception) -> ExitCode:
    from telesto.cli.common.service_errors import explain
    from telesto.client import TelestoError

    if not isinstance(error, TelestoError) or os.environ.get(TRACEBACK_VARIABLE):
        _report_unknown(error)
        return ExitCode.INTERNAL
    explained = explain(error)
    output.print_error(explained.message)
    return explained.code


def _report_unknown(error: Exception) -> None:
    if os.environ.get(TRACEBACK_VARIABLE):
        sys.excepthook(type(error), error, error.__traceback__)
        return
    output.print_error(
        f"unexpected failure: {type(error).__name__}: {error} ({TRACEBACK_VARIABLE}=1 shows where)"
    )
