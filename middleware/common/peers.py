"""This middleware among the others."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Addresses told to a client, at most.
_ADDRESSES_MAX = 16


@dataclass(slots=True)
class Peers:
    """This middleware among the others.

    Attributes:
        version: of this middleware.
        middleware_id: identifies it; 0 before it is registered.
        others: host:port of the other live ones, by their ids.
    """

    version: str
    middleware_id: int = 0
    others: dict[int, str] = field(default_factory=dict)

    @property
    def addresses(self) -> list[str]:
        """Addresses for clients to move to."""
        return list(dict.fromkeys(self.others.values()))[:_ADDRESSES_MAX]
