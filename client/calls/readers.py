"""Who reads: a message counts as taken when the thread or task that got it comes back for the next one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

NameT = TypeVar("NameT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Reader:
    """A thread or a task that reads.

    Attributes:
        identity: the thread or the task.
        gone: tells whether it has ended.
    """

    identity: Any
    gone: Callable[[], bool]


#: The reader of a call that names none.
_UNNAMED = Reader(None, lambda: False)


class ReaderMessages(Generic[NameT]):
    """The messages, by name, that readers have got and, as far as is known, not processed."""

    def __init__(self) -> None:
        self._readers: dict[tuple[int, object], tuple[Reader, list[NameT]]] = {}

    def __iter__(self) -> Iterator[NameT]:
        for _, held in self._readers.values():
            yield from held

    def give(self, reader: Reader | None, source: object, messages: Iterable[NameT]) -> None:
        """The reader has got these messages from a source, a queue say."""
        reader = reader or _UNNAMED
        key = (id(reader.identity), source)
        _, held = self._readers.setdefault(key, (reader, []))
        held.extend(messages)

    def come_back(self, reader: Reader | None, source: object) -> list[NameT]:
        """The reader asks the source for more: returns what it had, and what readers had that are gone."""
        reader = reader or _UNNAMED
        returned = self._readers.pop((id(reader.identity), source), (reader, []))[1]
        for key, (other, held) in list(self._readers.items()):
            if other.gone():
                del self._readers[key]
                returned += held
        return returned

    def all_back(self) -> list[NameT]:
        """The application asks for nothing more: returns what all readers had."""
        returned = list(self)
        self._readers.clear()
        return returned

    def drop(self, messages: Iterable[NameT]) -> None:
        """These messages were dealt with otherwise."""
        dropped = set(messages)
        for key, (reader, held) in list(self._readers.items()):
            kept = [name for name in held if name not in dropped]
            if kept:
                self._readers[key] = (reader, kept)
            else:
                del self._readers[key]
