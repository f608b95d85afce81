"""`telesto serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from telesto.cli.common import variables
from telesto.cli.common.options import DEFAULT_DATA_DIRECTORY, DatabaseUrl, DataDirectory, is_explicit
from telesto.cli.terminal.failures import usage_error

Host = Annotated[str | None, typer.Option("--host", help="The address to listen on. Default: 127.0.0.1.")]
Port = Annotated[
    int | None,
    typer.Option(
        "--port", min=0, max=65535, help="The port to listen on; 0 takes a free one. Default: 7001."
    ),
]
AdminPort = Annotated[
    int | None,
    typer.Option(
        "--admin-port", min=0, max=65535, help="Serve /metrics, /livez and /readyz here. Default: nowhere."
    ),
]
TlsCertificate = Annotated[
    Path | None,
    typer.Option(
        "--tls-certificate", metavar="FILE", help="Speak TLS with this certificate (PEM). Default: no TLS."
    ),
]
TlsKey = Annotated[
    Path | None,
    typer.Option("--tls-key", metavar="FILE", help="Its key. Default: it is in the certificate's file."),
]
TlsClientCa = Annotated[
    Path | None,
    typer.Option(
        "--tls-client-ca",
        metavar="FILE",
        help="Clients must present a certificate from an authority in this file (PEM).",
    ),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure",
        help="Listen on an address that others reach, without TLS, and without a login while there are no "
        "users.",
    ),
]
Processes = Annotated[
    int | None,
    typer.Option("--processes", min=1, max=256, help="How many processes share the port. Default: 1."),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="A TOML file with settings (see --show-config)."),
]
Upgrade = Annotated[
    bool,
    typer.Option(
        "--upgrade", help="First upgrade the database of the URL. An embedded one is always upgraded."
    ),
]
ShowConfig = Annotated[
    bool, typer.Option("--show-config", help="Print the settings in effect as TOML, and exit.")
]
StartJson = Annotated[
    bool, typer.Option("--json", help="Print the address as one line of JSON when the service runs.")
]


def serve(
    context: typer.Context,
    host: Host = None,
    port: Port = None,
    admin_port: AdminPort = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    insecure: Insecure = False,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    database_url: DatabaseUrl = None,
    processes: Processes = None,
    config: Config = None,
    upgrade: Upgrade = False,
    show_config: ShowConfig = False,
    as_json: StartJson = False,
) -> int:
    """Run the service until Ctrl-C, SIGTERM or SIGHUP; a second Ctrl-C ends it at once.

    With TLS, SIGHUP has the certificate read again instead.

    Without a database URL it runs a PostgreSQL of its own in the data directory; the first start creates it.
    A setting comes from these options, else from its TELESTO_* variable, else from the file.
    TELESTO_LOG_LEVEL=warning makes the log shorter.
    """
    from telesto.cli.serve.settings import has_database, load_settings, print_settings

    settings = load_settings(
        config,
        host=host,
        port=port,
        admin_port=admin_port,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        tls_client_ca=tls_client_ca,
        insecure=insecure or None,
        database_url=database_url,
        processes=processes,
    )
    if has_database(settings) and is_explicit(context, "data_dir"):
        raise usage_error(f"--data-dir names a database, and so does the database_url in {str(config)!r}")
    if show_config:
        variables.print_unknown()
        print_settings(settings)
        return 0
    from telesto.cli.serve.run import ServePlan, run_service

    return run_service(ServePlan(settings, data_dir, upgrade, as_json))
