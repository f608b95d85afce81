"""This middleware among the others."""

from __future__ import annotations

from dataclasses import dataclass, field

#: The most addresses that a client gets.
_ADDRESSES_MAX = 16


@dataclass(slots=True)
class Peers:
    """This middleware among the others.

    Attributes:
        version: the version of this middleware.
        middleware_id: its id; 0 before it is registered.
        incarnation: identifies the database; empty before this one is registered.
        others: host:port of the other live middlewares, by their ids.
    """

    version: str
    middleware_id: int = 0
    incarnation: str = ""
    others: dict[int, str] = field(default_factory=dict)

    @property
    def addresses(self) -> list[str]:
        """Addresses to which clients may move."""
        return list(dict.fromkeys(self.others.values()))[:_ADDRESSES_MAX]
