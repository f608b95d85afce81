"""The closed network, against closed forms, bounds and the laws that hold for every system."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, logsumexp

from telesto.benchmarks.analysis.network import Server, solve
from telesto.benchmarks.analysis.queueing import Bounds, Queue

DEMANDS = st.floats(1e-6, 10)
CUSTOMERS = st.integers(1, 60)

quickly = settings(max_examples=40)
"""Some, whatever else the machine does."""


def machine_repair(machines: int, running_s: float, repair_s: float, repairers: int) -> float:
    """Repairs per second of M/M/m//N: machines that run, and wait for one of m repairers."""
    n = np.arange(machines + 1)
    ways = gammaln(machines + 1) - gammaln(machines - n + 1)
    served = np.cumsum(np.concatenate([[0.0], np.log(np.minimum(n[1:], repairers))]))
    weights = ways - served + n * math.log(repair_s / running_s)
    chances = np.exp(weights - logsumexp(weights))
    return float(np.dot(np.minimum(n, repairers), chances)) / repair_s


def mean_value_analysis(demands: list[float], customers: int, think_s: float) -> float:
    """The recursion for stations of one server, which is safe: throughput."""
    lengths, throughput = [0.0] * len(demands), 0.0
    for n in range(1, customers + 1):
        residence = [demand * (1 + length) for demand, length in zip(demands, lengths, strict=True)]
        throughput = n / (think_s + sum(residence))
        lengths = [throughput * each for each in residence]
    return throughput


class TestClosedForms:
    @quickly
    @given(st.integers(1, 200), DEMANDS, DEMANDS, st.integers(1, 50))
    def test_machine_repair(self, machines: int, running: float, repair: float, repairers: int) -> None:
        found = solve([Server.of_servers("repair", repair, repairers)], machines, running)
        assert found.throughput_per_s == pytest.approx(machine_repair(machines, running, repair, repairers))

    @quickly
    @given(st.integers(1, 8), st.integers(1, 100), DEMANDS)
    def test_balanced_stations(self, count: int, customers: int, demand: float) -> None:
        found = solve([Server.of_servers(f"{n}", demand) for n in range(count)], customers)
        assert found.throughput_per_s == pytest.approx(customers / (demand * (customers + count - 1)))

    @quickly
    @given(st.lists(DEMANDS, min_size=1, max_size=4), CUSTOMERS, st.floats(0, 10))
    def test_the_recursion_where_that_is_safe(
        self, demands: list[float], customers: int, think: float
    ) -> None:
        found = solve([Server.of_servers(f"{n}", each) for n, each in enumerate(demands)], customers, think)
        assert found.throughput_per_s == pytest.approx(mean_value_analysis(demands, customers, think))

    @pytest.mark.parametrize("servers", [1, 2, 7])
    def test_many_thinkers_are_arrivals_by_chance(self, servers: int) -> None:
        """With ever more customers that think ever longer the network becomes M/M/m."""
        arrivals, service = 0.8 * servers, 1.0
        found = solve([Server.of_servers("one", service, servers)], 3000, 3000 / arrivals)
        open_system = Queue(found.throughput_per_s, service, servers)
        assert found.response_s == pytest.approx(open_system.response_s, rel=0.03)

    @quickly
    @given(CUSTOMERS, DEMANDS)
    def test_as_many_servers_as_customers_are_a_delay(self, customers: int, demand: float) -> None:
        servers = solve([Server.of_servers("one", demand, customers)], customers, 1.0)
        delay = solve([Server.delay("one", demand)], customers, 1.0)
        assert servers.throughput_per_s == pytest.approx(delay.throughput_per_s)
        assert servers.response_s == pytest.approx(demand)


class TestLaws:
    @quickly
    @given(
        st.lists(st.tuples(DEMANDS, st.integers(1, 64)), min_size=1, max_size=4), CUSTOMERS, st.floats(0, 10)
    )
    def test_hold_for_every_network(
        self, described: list[tuple[float, int]], customers: int, think: float
    ) -> None:
        stations = [Server.of_servers(f"{n}", demand, m) for n, (demand, m) in enumerate(described)]
        found = solve(stations, customers, think)
        throughput = found.throughput_per_s
        for station, (demand, servers) in zip(stations, described, strict=True):
            assert throughput * demand / servers <= 1 + 1e-9
            assert found.residence_s[station.name] >= demand * (1 - 1e-9)
        # Little: all customers are somewhere.
        there = throughput * (think + sum(found.residence_s.values()))
        assert there == pytest.approx(customers)
        assert found.response_s == pytest.approx(customers / throughput - think, rel=1e-6, abs=1e-9)
        bounds = Bounds(sum(d for d, _ in described), max(d / m for d, m in described), think)
        assert throughput <= bounds.throughput_at_most(customers) * (1 + 1e-9)

    @quickly
    @given(st.integers(1, 40), DEMANDS, st.integers(1, 8))
    def test_one_more_customer_slows_nothing_down(self, customers: int, demand: float, servers: int) -> None:
        stations = [Server.of_servers("a", demand, servers), Server.delay("b", 0.5)]
        fewer, more = solve(stations, customers), solve(stations, customers + 1)
        assert more.throughput_per_s >= fewer.throughput_per_s * (1 - 1e-12)
        assert more.response_s >= fewer.response_s * (1 - 1e-9)

    def test_saturated_stations_of_many_servers_stay_below_one(self) -> None:
        """Where the recursion of mean value analysis gives utilisations above 1."""
        for servers in (2, 8, 32, 64):
            found = solve(
                [Server.of_servers("a", 1.0, servers), Server.of_servers("b", 0.999, servers)], 600, 1e-3
            )
            assert found.throughput_per_s / servers <= 1
            assert found.throughput_per_s / servers == pytest.approx(1, rel=0.01)

    def test_a_station_that_gathers_gets_faster(self) -> None:
        gathering = Server("calls", 0.010, lambda n: n * 0.010 / (0.009 + 0.001 * n))
        alone = solve([Server.of_servers("calls", 0.010)], 50)
        together = solve([gathering], 50)
        assert together.throughput_per_s == pytest.approx(50 / (0.009 + 0.05))
        assert together.throughput_per_s > 8 * alone.throughput_per_s


class TestBadInput:
    def test_no_customer(self) -> None:
        with pytest.raises(ValueError, match="at least one customer"):
            solve([Server.delay("a", 1.0)], 0)

    def test_nothing_to_do(self) -> None:
        with pytest.raises(ValueError, match="need something"):
            solve([Server.delay("a", 0.0)], 1)

    def test_a_station_that_nobody_needs_is_left_out(self) -> None:
        found = solve([Server.delay("a", 0.0), Server.of_servers("b", 1.0)], 3)
        assert found.residence_s == pytest.approx({"b": 3.0})
