"""Names for the shell to complete: of queues, topics and clients, asked of the service.

It answers soon or not at all: a shell waits, and an error has no place in a command line that is being typed.
A name in which a shell finds more than a word, such as `a;reboot` or `$(reboot)`, is not completed: shells
insert it without quotes, and any client may have given it.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from telesto.client import TelestoClient

SECONDS_MAX = 1.0
"""For all that is asked."""
NAMES_MAX = 200
"""A shell shows no more of use."""
_WORD = re.compile(r"\w[\w.@%+=,/-]*")
"""What each of the shells takes as one word."""


def queues(incomplete: str) -> list[str]:
    """Names of queues that begin so."""
    return _asked(
        incomplete, lambda client: [row.name for row in client.queues(_like(incomplete), limit=NAMES_MAX)]
    )


def topics(incomplete: str) -> list[str]:
    """Names of topics that begin so."""
    return _asked(
        incomplete, lambda client: [row.name for row in client.topics(_like(incomplete), limit=NAMES_MAX)]
    )


def clients(incomplete: str) -> list[str]:
    """Names of lasting clients that begin so."""
    return _asked(
        incomplete,
        lambda client: [
            row.name for row in client.clients(_like(incomplete), limit=NAMES_MAX) if not row.temporary
        ],
    )


def _like(incomplete: str) -> str:
    return incomplete.replace("*", "?") + "*"


def _asked(incomplete: str, ask: Callable[[TelestoClient], list[str]]) -> list[str]:
    """What the service answers within SECONDS_MAX; nothing after that, or when anything fails.

    The address is that of TELESTO_URL or the default: an option --url is not looked at.
    """
    found: list[str] = []

    def work() -> None:
        from telesto.client import ClientOptions, TelestoClient
        from telesto.protocol.packets import ClientMode

        options = ClientOptions(
            call_timeout=SECONDS_MAX,
            try_timeout=SECONDS_MAX,
            connect_timeout=SECONDS_MAX,
            greeting_timeout=SECONDS_MAX,
            close_timeout=0.2,
            connect_tries=1,
        )
        try:
            with TelestoClient(
                os.environ.get("TELESTO_URL"), options=options, mode=ClientMode.READ_ONLY
            ) as client:
                found.extend(ask(client))
        except Exception:  # noqa: BLE001 - whatever it is, there is nothing to complete then
            return

    # A name that is looked up in vain, or a host that is gone, must not make the shell wait.
    thread = threading.Thread(target=work, name="completion", daemon=True)
    thread.start()
    thread.join(SECONDS_MAX + 0.5)
    return [name for name in found if name.startswith(incomplete) and _WORD.fullmatch(name)][:NAMES_MAX]
