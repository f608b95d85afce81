"""When and where a client connects, without I/O."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from telesto.client.connection.addresses import AddressList, backoff
from telesto.client.errors import NoAnswerError, NotTelestoError, TlsError
from telesto.client.options import ClientOptions
from telesto.client.url import Address
from telesto.protocol.errors import ErrorClass, TelestoError


class ReconnectPolicy:
    """Decides on the next attempt to connect.

    Attributes:
        attempt_at: when the next attempt may be made, by the session's clock.
        failure: why the last attempt failed or the last connection was lost; None once connected.
    """

    def __init__(
        self,
        addresses: Iterable[Address],
        options: ClientOptions,
        clock: Callable[[], float],
        chance: random.Random,
    ) -> None:
        self._options = options
        self._clock = clock
        self._chance = chance
        self._addresses = AddressList(addresses, options, chance)
        self.attempt_at = 0.0
        self.failure: TelestoError | None = None
        #: How many attempts in a row were accepted by what gave no answer of ours, and when the first began.
        self._unanswered = 0
        self._unanswered_since = 0.0

    @property
    def address(self) -> Address:
        """Where to connect next."""
        return self._addresses.next

    def is_hopeless(self, error: TelestoError) -> bool:
        """Tells whether to connect for the first time is given up, after an attempt that failed with this.

        A service that is away may come back in time; another protocol, or a certificate that is not
        trusted, will hardly change soon.
        """
        if self._unanswered >= len(self._addresses):
            if isinstance(error, (NotTelestoError, TlsError)):
                return True
            if self.attempt_at - self._unanswered_since >= self._options.greeting_timeout:
                return True
        tries = self._options.connect_tries
        if tries is None and error.error_class is ErrorClass.FATAL:
            tries = self._options.max_tries
        return tries is not None and self._addresses.rounds >= tries

    def start(self) -> None:
        """The next attempt is the first one of a new connection."""
        self._addresses.succeeded()
        self._unanswered = 0
        self.attempt_at = self._clock()

    def succeeded(self) -> None:
        """The client is connected."""
        self._addresses.succeeded()
        self._unanswered = 0
        self.failure = None

    def failed(self, error: TelestoError) -> None:
        """The attempt did not lead to a connection."""
        self.failure = error
        if not isinstance(error, (NotTelestoError, NoAnswerError, TlsError)):
            self._unanswered = 0
        else:
            if not self._unanswered:
                self._unanswered_since = self.attempt_at
            self._unanswered += 1
        self._addresses.failed()
        self.attempt_at = self._clock() + max(self._addresses.pause(), error.retry_after or 0.0)

    def lost(self, error: TelestoError) -> None:
        """The connection ended; the next attempt goes elsewhere, at once."""
        self.failure = error
        self._addresses.left()
        self.attempt_at = self._clock()

    def learn(self, addresses: Iterable[str]) -> None:
        """Remembers addresses that a middleware named."""
        self._addresses.learn(addresses)

    def retry_time(self, failures: int) -> float:
        """When to try again after this many failures, by the session's clock."""
        return self._clock() + backoff(failures, self._options, self._chance)
