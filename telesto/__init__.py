"""Telesto, a message queue service on PostgreSQL: what an application imports.

It offers what ``telesto.client`` offers, and imports that when the first of its names is asked for, so that
the other parts of Telesto do not pay for it.
"""

from typing import TYPE_CHECKING, Any

from telesto.version import VERSION as __version__  # noqa: F401, N811

if TYPE_CHECKING:
    # mypy does not follow an __all__ made of other lists, so the errors are imported here too.
    from telesto.client import *  # noqa: F403
    from telesto.protocol.error_codes import *  # noqa: F403
    from telesto.protocol.errors import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Returns what the client offers, whose names begin with a capital, unlike packages."""
    if name == "__all__" or name[0].isupper():
        import telesto.client

        if name == "__all__":
            return telesto.client.__all__
        if name in telesto.client.__all__:
            return getattr(telesto.client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    import telesto.client

    return [*telesto.client.__all__, "__version__"]
