"""Which middleware to try next, and how long to pause before it."""

from __future__ import annotations

import random
from collections.abc import Iterable

from telesto.client.errors import AddressError
from telesto.client.options import ClientOptions
from telesto.client.url import Address, parse_address


class AddressList:
    """The addresses of the service in the order of trying, given ones and those learned from middlewares.

    After a failure the next address is tried at once; after a round through all of them comes a pause, which
    doubles with each further round and is cut by a random part, so that clients do not come back in step.
    """

    def __init__(self, given: Iterable[Address], options: ClientOptions, chance: random.Random) -> None:
        self._line = list(dict.fromkeys(given))[: options.max_addresses]
        self._given = frozenset(self._line)
        self._options = options
        self._chance = chance
        self._next = 0
        self._failures = 0
        if options.shuffle_addresses:
            chance.shuffle(self._line)

    def __len__(self) -> int:
        return len(self._line)

    @property
    def next(self) -> Address:
        """The address to try next."""
        return self._line[self._next]

    @property
    def rounds(self) -> int:
        """How often all addresses have failed since the last success."""
        return self._failures // len(self._line)

    def pause(self) -> float:
        """Seconds to wait before the next attempt; 0 within a round."""
        if self._failures == 0 or self._failures % len(self._line):
            return 0.0
        return backoff(self.rounds, self._options, self._chance)

    def succeeded(self) -> None:
        """The address tried last answered and the client is connected."""
        self._failures = 0

    def failed(self) -> None:
        """The address tried last did not answer, or refused."""
        self._failures += 1
        self._next = (self._next + 1) % len(self._line)

    def left(self) -> None:
        """The connection to the address in use ended: another one is tried first, without a pause."""
        self._next = (self._next + 1) % len(self._line)

    def learn(self, texts: Iterable[str]) -> None:
        """Adds addresses that a middleware has named; those that cannot be read are passed over."""
        for text in texts:
            try:
                address = parse_address(text)
            except AddressError:
                continue
            if address not in self._line:
                self._make_room()
                if len(self._line) < self._options.max_addresses:
                    self._line.append(address)

    def _make_room(self) -> None:
        if len(self._line) < self._options.max_addresses:
            return
        for index, address in enumerate(self._line):
            if address not in self._given and index != self._next:
                del self._line[index]
                self._next -= index < self._next
                return


def backoff(failures: int, options: ClientOptions, chance: random.Random) -> float:
    """Seconds to pause after this many failures in a row: doubling, bounded, with the upper half random."""
    longest: float = min(options.backoff_max, options.backoff_initial * 2 ** min(failures - 1, 30))
    return longest * (0.5 + chance.random() / 2)
