"""The entry point of the `telesto` command.

Everything else is imported inside `run`, so that a missing library or Ctrl-C during the imports ends in one
line instead of a traceback.
"""

import os
import sys
from typing import NoReturn

from telesto.cli.terminal.exit_codes import ExitCode


def run() -> NoReturn:
    """Run the command line of this process and exit with one of `telesto.cli.terminal.exit_codes`."""
    _occupy_standard_descriptors()
    try:
        from telesto.cli.common.app import execute

        code = execute(sys.argv[1:])
    except ModuleNotFoundError as error:
        code = _report_missing_library(error)
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    sys.exit(int(code))


def _occupy_standard_descriptors() -> None:
    """See to it that 0, 1 and 2 are open, so that no socket gets one of them and is printed to.

    Writing to one opened here fails, as it should: a message that cannot be printed is not confirmed.
    """
    descriptor = os.open(os.devnull, os.O_RDONLY)
    while descriptor <= 2:
        descriptor = os.dup(descriptor)
    os.close(descriptor)


def _report_missing_library(error: ModuleNotFoundError) -> ExitCode:
    sys.stderr.write(
        f"telesto: the Python library {error.name!r} is missing; "
        "the command line needs: pip install 'telesto-mq[server]'\n"
    )
    return ExitCode.INTERNAL


if __name__ == "__main__":
    run()
