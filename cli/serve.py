"""`telesto serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from telesto.cli import variables
from telesto.cli.options import DEFAULT_DATA_DIRECTORY, DatabaseUrl

Host = Annotated[str | None, typer.Option("--host", help="The address to listen on. Default: 127.0.0.1.")]
Port = Annotated[
    int | None, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one. Default: 7001.")
]
AdminPort = Annotated[
    int | None,
    typer.Option(
        "--admin-port", min=0, max=65535, help="Serve /metrics and /healthz on this port. Default: not."
    ),
]
DataDirectory = Annotated[
    Path,
    typer.Option(
        "--data-dir",
        envvar="TELESTO_DATA_DIR",
        metavar="DIRECTORY",
        help="Where the embedded PostgreSQL keeps its data, without a database URL.",
    ),
]
Processes = Annotated[
    int | None, typer.Option("--processes", min=1, max=256, help="Processes that share the port. Default: 1.")
]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="A TOML file with settings (see --show-config)."),
]
Upgrade = Annotated[
    bool,
    typer.Option("--upgrade", help="Upgrade the database given by URL first; an embedded one always is."),
]
ShowConfig = Annotated[
    bool, typer.Option("--show-config", help="Print the settings in effect as TOML and exit.")
]
StartJson = Annotated[
    bool, typer.Option("--json", help="Print the address as JSON, in one line, once it is served.")
]


def register(root: typer.Typer) -> None:
    """Add the command to the command line."""
    root.command("serve")(serve)


def serve(
    host: Host = None,
    port: Port = None,
    admin_port: AdminPort = None,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    database_url: DatabaseUrl = None,
    processes: Processes = None,
    config: Config = None,
    upgrade: Upgrade = False,
    show_config: ShowConfig = False,
    as_json: StartJson = False,
) -> int:
    """Run the service until Ctrl-C, SIGTERM or SIGHUP; a second Ctrl-C ends it at once.

    Without a database URL it runs a PostgreSQL of its own in the data directory, made at the first start.
    Settings come from these options, then TELESTO_* variables, then the file; TELESTO_LOG_LEVEL=warning
    makes it quieter.
    """
    from telesto.cli.serve_settings import load_settings, print_settings

    settings = load_settings(
        config,
        host=host,
        port=port,
        admin_port=admin_port,
        database_url=database_url,
        processes=processes,
    )
    if show_config:
        variables.print_unknown()
        print_settings(settings)
        return 0
    from telesto.cli.serve_run import ServePlan, run_service

    return run_service(ServePlan(settings, data_dir, upgrade, as_json))
