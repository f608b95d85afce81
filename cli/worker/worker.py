"""`telesto worker`."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from telesto.cli.common.durations import duration_option
from telesto.cli.terminal.failures import usage_error

Application = Annotated[
    str, typer.Argument(metavar="MODULE:APP", help="The application: a module, a colon, and its App.")
]
Processes = Annotated[int, typer.Option("--processes", min=1, max=256, help="How many processes work.")]
Concurrency = Annotated[
    int,
    typer.Option("--concurrency", min=1, max=1000, help="How many messages of a queue a process works on."),
]
Queues = Annotated[
    list[str] | None,
    typer.Option("--queue", metavar="QUEUE", help="Work on this queue only; may be repeated. Default: all."),
]
Drain = Annotated[
    float,
    duration_option("--drain", least=0, help="How long tasks may take to end when a process stops."),
]
UpdateQueues = Annotated[
    bool, typer.Option("--update-queues", help="Change settings of queues that differ from what tasks say.")
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics", metavar="HOST:PORT", help="Serve Prometheus metrics there. Port 0: a free one."
    ),
]
_NAME = re.compile(r"[\w.]+:\w+")


def worker(
    application: Application,
    processes: Processes = 1,
    concurrency: Concurrency = 8,
    queue: Queues = None,
    drain: Drain = 20.0,
    update_queues: UpdateQueues = False,
    metrics: Metrics = None,
) -> int:
    """Run an application's tasks until Ctrl-C or SIGTERM; tasks under way may end first.

    A second signal cancels them, a third one ends the processes at once. SIGHUP reloads: new processes import
    the code anew, and when they work the old ones end. A process that dies is started again.
    """
    try:
        from telesto.cli.worker.process import Plan
        from telesto.cli.worker.supervisor import supervise
    except ImportError as error:
        if "telesto-mq[tasks]" not in str(error):
            raise
        raise usage_error(str(error)) from error

    if not _NAME.fullmatch(application):
        raise usage_error(f"{application!r} names no application; write MODULE:APP, such as shop:app")
    host, _, port = (metrics or "").rpartition(":")
    if metrics is not None and not (host and port.isdecimal() and int(port) <= 65_535):
        raise usage_error(f"--metrics {metrics!r} is no address; write HOST:PORT, such as 127.0.0.1:9100")
    plan = Plan(application, concurrency, tuple(queue) if queue else None, drain, update_queues)
    return supervise(plan, processes, (host.strip("[]"), int(port)) if metrics is not None else None)
