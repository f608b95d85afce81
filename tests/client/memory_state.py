"""A client's state in memory: what is flushed survives the session, and a flush can be made to fail."""

from telesto.client.calls.state import StateChanges, StoredHandOver, StoredRequest, StoredState
from telesto.client.errors import StateError, StateWriteError


class MemoryState:
    """Keeps to the rules of a StateStore."""

    def __init__(self) -> None:
        self.stored = StoredState()
        self.writes = 0
        self.broken = False

    @property
    def requests(self) -> dict[int, StoredRequest]:
        return self.stored.requests

    @property
    def hand_overs(self) -> dict[int, StoredHandOver]:
        return self.stored.hand_overs

    def write(self, changes: StateChanges) -> None:
        if self.broken:
            raise StateWriteError("the disk is full")
        self.writes += 1
        self.stored.apply(changes)

    def try_write(self, changes: StateChanges) -> StateError | None:
        """Writes; returns the error instead of raising it."""
        try:
            self.write(changes)
        except StateError as error:
            return error
        return None

    def close(self) -> None:
        pass

    def forked(self) -> None:
        pass

    def names(self) -> set[tuple[int, int, int]]:
        """Names the messages in the application's hands."""
        return {
            (entry.session, entry.number, entry.message_id)
            for entry in self.hand_overs.values()
            if not entry.taken
        }
