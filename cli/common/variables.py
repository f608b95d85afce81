"""The environment variables that Telesto reads, and those that look as if it did."""

from __future__ import annotations

import os
from collections.abc import Callable
from difflib import get_close_matches

from telesto.cli.terminal import output

PREFIX = "TELESTO_"
OTHERS = frozenset(
    {
        "TELESTO_URL",
        "TELESTO_USER",
        "TELESTO_PASSWORD",
        "TELESTO_PASSWORD_FILE",
        "TELESTO_TOKEN_FILE",
        "TELESTO_STATE_DIR",
        "TELESTO_RETRY_FOR",
        "TELESTO_TRY_TIMEOUT",
        "TELESTO_DATA_DIR",
        "TELESTO_JDBC_DRIVER",
        "TELESTO_TRACEBACK",
        # Also a setting of a middleware, but applications set it, and their commands must start fast.
        "TELESTO_DATABASE_URL",
        # What `telesto consume --exec` tells its command, which may be a command of Telesto.
        "TELESTO_QUEUE",
        "TELESTO_MESSAGE_ID",
        "TELESTO_SENDER_ID",
        "TELESTO_PRIORITY",
        "TELESTO_ATTEMPT",
        "TELESTO_REDELIVERED",
        "TELESTO_PARTITION_KEY",
        "TELESTO_HEADERS",
        # Of the plugin for pytest, and of the test suite.
        "TELESTO_TEST_URL",
        "TELESTO_TEST_DATABASE_URL",
    }
)
"""Variables that are known without the settings of a middleware, whose module is slow to import."""


def tell_unknown(tell: Callable[[str, str | None], None], tell_links: Callable[[list[str]], None]) -> None:
    """Report each unknown variable TELESTO_..., with the nearest known name.

    Those that Kubernetes has set are reported together.
    """
    others = sorted(name for name in os.environ if name.upper().startswith(PREFIX) and name not in OTHERS)
    if not others:
        return
    # Importing them takes longer than most commands.
    from telesto.middleware.common.service_links import service_links
    from telesto.middleware.common.settings import ServerSettings

    links = service_links(os.environ)
    if links:
        tell_links(sorted(links))
    settings = {PREFIX + name.upper() for name in ServerSettings.model_fields}
    known = {name.removeprefix(PREFIX): name for name in settings | OTHERS}
    for name in others:
        upper = name.upper()
        if upper not in settings and name not in links:
            near = get_close_matches(upper.removeprefix(PREFIX), known, n=1)
            tell(name, known[near[0]] if near else None)


def print_unknown() -> None:
    """Print the report of `tell_unknown` on standard error."""
    tell_unknown(_print_unknown, _print_links)


def _print_unknown(name: str, nearest: str | None) -> None:
    hint = f"; did you mean {nearest}?" if nearest else ""
    output.print_error(f"the environment variable {name} is unknown and has no effect{hint}")


def _print_links(names: list[str]) -> None:
    output.print_error(
        f"{names[0]} and {len(names) - 1} more environment variables are links to a Kubernetes service "
        "and have no effect; enableServiceLinks: false in the pod's specification removes them"
    )
