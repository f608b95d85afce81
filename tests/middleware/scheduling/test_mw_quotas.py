"""Who may use how much: the rules, without connections."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telesto.middleware.common.deadlines import Deadlines
from telesto.middleware.common.event_log import PERIOD_S, EventLog
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.dispatcher import Budget, ByAddress
from telesto.middleware.scheduling.requests import Client, Kind, Pipeline, Request
from telesto.middleware.wire.quotas import Quotas, Resource, address_of
from telesto.protocol import packets
from wire import FULL

REQUEST = Request(
    Pipeline(lambda frame: None, lambda: None, lambda client: None, lambda packet_id, outcome: None),
    packets.Ping(),
    1,
    Kind.PUT,
    10,
)


@dataclass(eq=False)
class Member:
    """Stands for a connection."""

    pipeline: Pipeline
    buffered: int = 0
    unsent: int = 0
    unsent_since: float = 0.0
    slow_since: float | None = None
    frame_since: float | None = None
    given_up: list[Resource] = field(default_factory=list)

    def unsent_now(self) -> int:
        return self.unsent

    def give_up(self, resource: Resource) -> None:
        self.given_up.append(resource)


class Clock:
    """Stands for a loop: its time, and what is to be called."""

    def __init__(self) -> None:
        self.now = 100.0
        self.calls: list[Any] = []

    def time(self) -> float:
        return self.now

    def call_later(self, _delay: float, action: Any) -> Clock:
        self.calls.append(action)
        return self

    def call_at(self, _when: float, action: Any) -> Clock:
        self.calls.append(action)
        return self

    def cancel(self) -> None:
        pass

    def look(self) -> None:
        self.calls.pop()()


class Crowd:
    """Connections under the rules."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.budget = Budget()
        self.members: list[Member] = []
        loop: Any = self.clock
        connections: Any = self
        events = EventLog("test", self.clock.time, Deadlines(loop))
        self.quotas = Quotas(ServerSettings(**settings), loop, self.budget, connections, events)

    def snapshot(self) -> list[Member]:
        return self.members

    def come(self, address: str, client_id: int) -> Member:
        pipeline = Pipeline(
            lambda frame: None, lambda: None, lambda client: None, lambda packet_id, outcome: None
        )
        pipeline.address = address
        pipeline.client = Client(client_id, 1, FULL)
        self.members.append(Member(pipeline))
        return self.members[-1]

    def send(self, member: Member, count: int) -> int:
        """Sends requests in one piece; returns how many are admitted."""
        pipeline = member.pipeline
        left, admitted = self.quotas.requests_left(pipeline), 0
        for _ in range(count):
            if admitted >= left:
                left = self.quotas.requests_left(pipeline, admitted)
            if admitted < left:
                pipeline.requests.append(REQUEST)
                admitted += 1
        pipeline.size += 10 * admitted
        self.budget.enter(admitted, 10 * admitted)
        self.quotas.admitted(pipeline, admitted, 10 * admitted)
        return admitted

    def requests_of(self, address: str) -> int:
        return sum(
            len(member.pipeline.requests) for member in self.members if member.pipeline.address == address
        )


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 8), st.integers(1, 4_000)), max_size=40),
    st.booleans(),
)
def test_a_client_that_uses_nothing_is_served_whatever_others_do(
    sends: list[tuple[str, int, int]], same_address: bool
) -> None:
    crowd = Crowd(budget_requests=4_000, address_share=0.8)
    known: dict[tuple[str, int], Member] = {}
    for address, client_id, count in sends:
        if (address, client_id) not in known:
            known[address, client_id] = crowd.come(address, client_id)
        crowd.send(known[address, client_id], count)
        crowd.clock.now += 0.01
    for address in "abc":
        assert crowd.requests_of(address) <= 3_200 + 8 * 16
    assert crowd.send(crowd.come("a" if same_address else "d", 99), 16) == 16
    assert crowd.budget.requests <= 4_000


def test_greedy_clients_get_the_same_each_once_requests_are_done() -> None:
    crowd = Crowd(budget_requests=1_000, address_share=0.8)
    members = [crowd.come("a", number) for number in range(1, 5)]
    for _ in range(20):
        for member in members:
            crowd.send(member, 1_000)
            done = len(member.pipeline.requests) // 4
            for _ in range(done):
                member.pipeline.requests.popleft()
            crowd.budget.leave(done, 0)
        crowd.clock.now += 1.0
    # Five equal parts of what an address may have: four are used, one is left.
    kept = [len(member.pipeline.requests) for member in members]
    assert max(kept) < 2 * min(kept)
    assert crowd.send(crowd.come("b", 9), 1_000) > 150


def test_the_connections_of_a_client_share_what_one_may_have() -> None:
    crowd = Crowd(budget_requests=1_000, address_share=0.8)
    for _ in range(20):
        crowd.send(crowd.come("a", 1), 1_000)
        crowd.clock.now += 1.0
    assert crowd.budget.requests == pytest.approx(400, abs=10)


def test_the_client_with_most_waiting_reads_gives_one_up() -> None:
    crowd = Crowd(max_waiting_reads=1_000, address_share=0.8)
    greedy, modest = crowd.come("a", 1).pipeline, crowd.come("a", 2).pipeline
    parked = 0

    def wait(pipeline: Pipeline) -> Pipeline | None:
        """One more read is to wait; returns whose is refused."""
        nonlocal parked
        at_address = sum(
            member.pipeline.parked for member in crowd.members if member.pipeline.address == pipeline.address
        )
        yields = crowd.quotas.whose_read_yields(pipeline, parked, at_address)
        if yields is None:
            parked += 1
        else:
            yields.parked -= 1
        pipeline.parked += 1
        return yields

    while wait(greedy) is None:
        pass
    assert (greedy.parked, parked) == (800, 800)
    while wait(modest) is greedy:
        crowd.clock.now += 0.01
    assert (greedy.parked, modest.parked) == pytest.approx((400, 400), abs=1)
    other = crowd.come("b", 3).pipeline
    for _ in range(200):
        assert wait(other) is None
        crowd.clock.now += 0.01
    assert parked == 1_000
    # All is used; others have more than this client, so theirs goes.
    assert wait(other) in (greedy, modest)
    assert parked == 1_000


def test_consumers_are_shared_in_the_same_way() -> None:
    crowd = Crowd(max_consumers=1_000, address_share=0.8)
    joined = 0
    for client_id in range(1, 21):
        pipeline = crowd.come("a", client_id).pipeline
        while crowd.quotas.may_join(pipeline, joined):
            pipeline.consumers[joined] = None
            joined += 1
            crowd.clock.now += 1.0
    assert joined < 900
    for address in "ab":
        assert crowd.quotas.may_join(crowd.come(address, 99).pipeline, joined)


def test_large_frames_are_refused_before_small_ones() -> None:
    crowd = Crowd(budget_bytes=1_000_000)
    for client_id in range(1, 4):
        member = crowd.come("a", client_id)
        member.buffered = 200_000
        crowd.budget.enter(0, 200_000)
    member = crowd.come("a", 4)
    assert not crowd.quotas.may_buffer(member.pipeline, 250_000, 250_000)
    crowd.clock.now += 1.0
    assert crowd.quotas.may_buffer(member.pipeline, 100_000, 100_000)


def test_what_is_kept_without_moving_is_taken_back_where_most_of_it_is() -> None:
    crowd = Crowd(budget_requests=1_000)
    small = crowd.come("b", 1)
    for client_id in (2, 2, 3):
        crowd.come("a", client_id)
    moving = crowd.come("a", 4)
    for member, count in zip(crowd.members, (100, 90, 95, 110, 400), strict=True):
        member.slow_since = None if member is moving else 10.0
        member.pipeline.requests.extend([REQUEST] * count)
        crowd.budget.enter(count, 0)
    crowd.quotas.requests_left(small.pipeline)
    crowd.clock.look()
    assert [bool(member.given_up) for member in crowd.members] == [False, False, True, False, False]


@pytest.mark.parametrize(("used_up", "given_up"), [(False, []), (True, [Resource.UNSENT])])
def test_who_has_just_stopped_has_some_time_unless_all_is_used_up(
    used_up: bool, given_up: list[Resource]
) -> None:
    crowd = Crowd(budget_unsent_bytes=1_000_000, write_hard_bytes=1 << 22)
    member = crowd.come("a", 1)
    crowd.clock.now += 50
    crowd.quotas.unsent(member, 1_000_000 if used_up else 999_999)  # type: ignore[arg-type]
    crowd.clock.look()
    assert member.given_up == given_up
    crowd.clock.now += 1.0
    crowd.clock.look()
    assert member.given_up


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        (("192.0.2.7", 5), "192.0.2.7"),
        (("::ffff:192.0.2.7", 5, 0, 0), "192.0.2.7"),
        (("2001:db8:1:2:3:4:5:6", 5, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 5, 0, 3), "fe80::/64"),
        ("/run/telesto", "local"),
        (None, "local"),
    ],
)
def test_peers_are_told_apart_by_what_one_machine_has(peer: object, address: str) -> None:
    assert address_of(peer) == address


def test_logins_are_taken_from_one_address_after_the_other() -> None:
    def pipeline(address: str) -> Pipeline:
        made = Pipeline(
            lambda frame: None, lambda: None, lambda client: None, lambda packet_id, outcome: None
        )
        made.address = address
        return made

    waiting = ByAddress()
    pipelines = [pipeline(address) for address in "aaaabbca"]
    for each in pipelines:
        waiting.append(each)
    assert len(waiting) == len(list(waiting)) == 8
    taken = [waiting.popleft() for _ in range(4)]
    assert [each.address for each in taken] == ["a", "b", "c", "a"]
    assert [pipelines.index(each) for each in taken] == [0, 4, 6, 1]
    waiting.appendleft(taken[3])
    late = pipeline("d")
    waiting.append(late)
    rest = [waiting.popleft() for _ in range(len(waiting))]
    assert [each.address for each in rest] == ["a", "b", "d", "a", "a", "a"]
    assert [pipelines.index(each) for each in rest if each is not late] == [1, 5, 2, 3, 7]


def test_lines_of_one_kind_and_origin_are_few_and_count_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from telesto.middleware.common import logs

    logs.configure("info", json=True)
    clock: Any = Clock()
    deadlines = Deadlines(clock)
    events = EventLog("test", clock.time, deadlines)
    for number in range(5):
        events.info("refused", "a", number=number)
    events.info("refused", "b", number=7)
    assert [line.split('"number": ')[1][0] for line in written(capsys)] == ["0", "7"]
    clock.now += PERIOD_S
    clock.look()
    (line,) = written(capsys)
    assert '"number": 4' in line
    assert '"left_out": 3' in line
    clock.now += 2 * PERIOD_S
    clock.look()
    assert written(capsys) == []
    events.info("refused", "a", number=9)
    assert len(written(capsys)) == 1


def written(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()
