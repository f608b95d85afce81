"""Failures as the user sees them: one line on standard error and an exit code."""

from __future__ import annotations

from collections.abc import Sequence

from telesto.cli.terminal.exit_codes import ExitCode


class CommandError(Exception):
    """Ends a command with one line on standard error, and with `lines` below it.

    `message` says what failed, with which value, and what to do; `lines` are those of a log that say more;
    `code` is the exit status.
    """

    def __init__(self, message: str, code: ExitCode, lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.lines = lines


class OutputClosedError(Exception):
    """The reader of standard output went away."""


def usage_error(message: str) -> CommandError:
    """A mistake in the command line."""
    return CommandError(message, ExitCode.USAGE)
