"""In which order a consumer's messages are given, as a whole and one of each partition at a time."""

import random
from collections import deque

import pytest

from telesto.client.bookkeeping.prefetch_buffer import PrefetchBuffer
from telesto.client.models import LeaseId, Message


def message(number: int, key: str | None = None) -> Message:
    return Message(
        number, 1, 2, None, None, 5, 0, 1, False, b"", lease=LeaseId(3, 4, number), partition_key=key
    )


def buffer(*messages: Message, by_partition: bool = True) -> PrefetchBuffer:
    made = PrefetchBuffer()
    made.by_partition = by_partition
    for each in messages:
        made.add(each)
    return made


def take_all(waiting: PrefetchBuffer) -> list[int]:
    taken = []
    while (each := waiting.take()) is not None:
        taken.append(each.message_id)
    return taken


def test_all_are_given_at_once_if_the_application_sees_to_the_order() -> None:
    assert take_all(buffer(message(1, "a"), message(2, "a"), message(3), by_partition=False)) == [1, 2, 3]


def test_of_a_partition_one_is_given_at_a_time() -> None:
    first, second, third = message(1, "a"), message(2, "a"), message(3, "a")
    waiting = buffer(first, second, message(10, "b"), third, message(11))
    assert take_all(waiting) == [1, 10, 11]
    assert len(waiting) == 2
    waiting.ended(first)
    assert take_all(waiting) == [2]
    waiting.put_back(second)
    assert take_all(waiting) == [2]
    waiting.ended(second)
    waiting.ended(message(11))
    assert take_all(waiting) == [3]
    waiting.ended(third)
    waiting.add(message(4, "a"))
    assert take_all(waiting) == [4]


def test_what_is_gone_lets_those_behind_it_be_given() -> None:
    first = message(1, "a")
    waiting = buffer(first, message(2, "a"), message(3, "a"))
    assert take_all(waiting) == [1]
    waiting.ended(first)
    assert [each.message_id for each in waiting.remove(lambda each: each.message_id == 2)] == [2]
    assert take_all(waiting) == [3]


def test_what_comes_again_waits_for_the_handler_that_has_it_still() -> None:
    first = message(1, "a")
    waiting = buffer(first, message(2, "a"))
    assert take_all(waiting) == [1]
    assert [each.message_id for each in waiting.clear()] == [2]
    waiting.add(message(1, "a"))
    assert take_all(waiting) == []
    waiting.ended(first)
    assert take_all(waiting) == [1]


@pytest.mark.parametrize("seed", range(20))
def test_partitions_keep_their_order_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)
    waiting = buffer()
    expected: dict[str, deque[int]] = {key: deque() for key in "abc"}
    given: dict[str, Message] = {}
    for number in range(1, 400):
        step = chance.random()
        if step < 0.4:
            key = chance.choice("abc")
            waiting.add(message(number, key))
            expected[key].append(number)
        elif step < 0.7 and (taken := waiting.take()) is not None:
            assert taken.partition_key is not None
            assert taken.partition_key not in given
            assert taken.message_id == expected[taken.partition_key].popleft()
            given[taken.partition_key] = taken
        elif step < 0.8 and given:
            back = given.pop(chance.choice(sorted(given)))
            assert back.partition_key is not None
            waiting.put_back(back)
            expected[back.partition_key].appendleft(back.message_id)
        elif given:
            waiting.ended(given.pop(chance.choice(sorted(given))))
        if chance.random() < 0.05:
            gone = {each.message_id for each in waiting.remove(lambda each: chance.random() < 0.3)}
            for key, numbers in expected.items():
                expected[key] = deque(each for each in numbers if each not in gone)
        assert len(waiting) == sum(map(len, expected.values()))
