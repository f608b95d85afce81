"""The entry point of the `telesto` command.

Everything else is imported inside `run`, so that a missing library or Ctrl-C during the imports ends in one
line instead of a traceback.
"""

import sys
from typing import NoReturn

from telesto.cli.exit_codes import ExitCode


def run() -> NoReturn:
    """Run the command line of this process and exit with one of `telesto.cli.exit_codes`."""
    try:
        from telesto.cli.app import execute

        code = execute(sys.argv[1:])
    except ModuleNotFoundError as error:
        code = _report_missing_library(error)
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    sys.exit(int(code))


def _report_missing_library(error: ModuleNotFoundError) -> ExitCode:
    sys.stderr.write(
        f"telesto: the Python library {error.name!r} is missing; "
        "the command line needs: pip install 'telesto-mq[server]'\n"
    )
    return ExitCode.INTERNAL


if __name__ == "__main__":
    run()
