"""The exit status of the `telesto` command.

0 to 9 are Telesto's own. 70 and 77 are those of `sysexits.h` for a failure inside a program and for what is
not permitted. Those above 128 follow the shells' convention: 128 plus the number of the signal.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit status of a command."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOTHING = 4
    IN_USE = 5
    SCHEMA = 6
    IN_DOUBT = 7
    COMMAND_FAILED = 8
    COMMAND_NOT_RUN = 9
    INTERNAL = 70
    NOT_ALLOWED = 77
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141
    TERMINATED = 143


MEANINGS: dict[ExitCode, str] = {
    ExitCode.DONE: "done",
    ExitCode.REFUSED: "refused by the service, or a check found something wrong",
    ExitCode.USAGE: "the command line is wrong: an option, a file or a URL",
    ExitCode.UNREACHABLE: "the service or its database cannot be reached",
    ExitCode.NOTHING: "there was no message",
    ExitCode.IN_USE: "the port, the data directory, the database, the client's name or its state is in use",
    ExitCode.SCHEMA: "the database has the wrong schema, encoding or rights, or was restored",
    ExitCode.IN_DOUBT: "in doubt: it may or may not have been done",
    ExitCode.COMMAND_FAILED: "a command of `telesto consume --exec` failed",
    ExitCode.COMMAND_NOT_RUN: "the command of `telesto consume --exec` cannot be run",
    ExitCode.INTERNAL: "an unexpected failure",
    ExitCode.NOT_ALLOWED: "the login failed, or the user has no right to do this",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
    ExitCode.OUTPUT_CLOSED: "the reader of the output went away (such as `| head -1`)",
    ExitCode.TERMINATED: "ended by SIGTERM",
}


def as_help_text() -> str:
    """The exit codes as a list for the end of a help page (Markdown)."""
    lines = (f"- {code.value}: {meaning}" for code, meaning in MEANINGS.items())
    return "Exit codes:\n\n" + "\n".join(lines)
