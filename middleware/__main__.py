"""``python -m telesto.middleware``: serves with the settings of the environment and of this command line."""

from __future__ import annotations

import argparse
from pathlib import Path

from telesto.middleware.common.logs import configure
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.server import serve


def main() -> None:
    """Reads the command line and serves until SIGTERM, SIGINT or SIGHUP."""
    parser = argparse.ArgumentParser(prog="python -m telesto.middleware", description=main.__doc__)
    parser.add_argument("--config", type=Path, help="TOML file with settings")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--admin-port", type=int)
    parser.add_argument("--database-url")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--log-level")
    arguments = vars(parser.parse_args())
    try:
        settings = ServerSettings.load(arguments.pop("config"), **arguments)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    configure(settings.log_level, json=settings.log_json)
    serve(settings)


if __name__ == "__main__":
    main()
