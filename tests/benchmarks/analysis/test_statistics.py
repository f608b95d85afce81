"""Statistics and laws as pure functions, against worked examples and closed forms."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telesto.benchmarks.analysis.queueing import Bounds, Queue, Station, deviation, response_by_law
from telesto.benchmarks.analysis.repetitions import mean_of
from telesto.benchmarks.analysis.scalability_law import Scalability, fit
from telesto.benchmarks.analysis.two_levels import analyse, normal_quantiles

LEVELS = (1, 2, 4, 8, 16, 32, 64)
JAIN = {(-1, -1): (15, 18, 12), (1, -1): (45, 48, 51), (-1, 1): (25, 28, 19), (1, 1): (75, 75, 81)}
"""Memory and cache, each at two levels, three repetitions: Jain's example (chapter 18)."""


class TestRepetitions:
    def test_students_interval(self) -> None:
        found = mean_of([10.0, 12.0, 14.0])
        assert found.mean == 12.0
        # t(0.975; 2) = 4.3027, s = 2
        assert found.low == pytest.approx(12 - 4.3027 * 2 / math.sqrt(3), abs=1e-3)
        assert found.high == pytest.approx(12 + 4.3027 * 2 / math.sqrt(3), abs=1e-3)

    def test_one_repetition_has_no_interval(self) -> None:
        found = mean_of([5.0])
        assert (found.mean, found.low, found.high) == (5.0, None, None)


class TestClosedSystem:
    def test_bounds_meet_at_the_knee(self) -> None:
        bounds = Bounds(demand_s=0.1, bottleneck_s=0.04, think_s=0.3)
        assert bounds.knee == pytest.approx(10)
        assert bounds.throughput_at_most(5) == pytest.approx(5 / 0.4)
        assert bounds.throughput_at_most(10) == pytest.approx(25)
        assert bounds.throughput_at_most(100) == pytest.approx(25)
        assert bounds.response_at_least(5) == pytest.approx(0.1)
        assert bounds.response_at_least(100) == pytest.approx(100 * 0.04 - 0.3)

    @pytest.mark.parametrize("values", [(1.0, 0.0, 0.0), (-1.0, 1.0, 0.0), (1.0, 1.0, -1.0)])
    def test_bounds_of_nonsense_are_refused(self, values: tuple[float, float, float]) -> None:
        with pytest.raises(ValueError, match="positive"):
            Bounds(*values)

    def test_response_time_law(self) -> None:
        assert response_by_law(20, 10.0, 1.5) == pytest.approx(0.5)
        assert deviation(0.45, 0.5) == pytest.approx(-0.1)
        with pytest.raises(ValueError, match="throughput"):
            response_by_law(20, 0.0)


class TestScalabilityLaw:
    @settings(max_examples=25)
    @given(st.floats(1, 1e5), st.floats(0.005, 0.6), st.floats(1e-5, 1e-2))
    def test_finds_the_coefficients_that_made_the_measurements(
        self, single: float, contention: float, coherency: float
    ) -> None:
        law = [single * n / (1 + contention * (n - 1) + coherency * n * (n - 1)) for n in LEVELS]
        found = fit(LEVELS, law)
        assert isinstance(found, Scalability)
        assert found.single.value == pytest.approx(single, rel=0.01)
        assert found.contention.value == pytest.approx(contention, rel=0.05, abs=1e-4)
        assert found.coherency.value == pytest.approx(coherency, rel=0.05, abs=1e-6)
        assert found.unexplained < 1e-4

    def test_intervals_hold_the_truth_of_noisy_measurements(self) -> None:
        random = np.random.default_rng(7)
        n = np.repeat(LEVELS, 4)
        x = 100 * n / (1 + 0.1 * (n - 1) + 0.001 * n * (n - 1)) * random.normal(1, 0.03, len(n))
        found = fit(n.tolist(), x.tolist())
        assert isinstance(found, Scalability)
        for coefficient, truth in ((found.single, 100), (found.contention, 0.1), (found.coherency, 0.001)):
            assert coefficient.low < truth < coefficient.high
            assert coefficient.significant
        assert found.peak == pytest.approx(math.sqrt(0.9 / 0.001), rel=0.2)
        assert found.limit_per_s == pytest.approx(found.throughput(found.peak or 0))

    def test_what_scales_without_loss_has_no_peak(self) -> None:
        found = fit(LEVELS, [5.0 * n for n in LEVELS])
        assert isinstance(found, Scalability)
        assert found.contention.value == pytest.approx(0, abs=1e-4)
        assert found.peak is None or found.peak > 1000
        assert found.throughput(1000) == pytest.approx(5000, rel=0.01)

    @pytest.mark.parametrize(
        ("customers", "throughput", "reason"),
        [
            ([1, 2, 4], [1.0, 2.0, 3.0], "takes 4 levels, and there are 3"),
            ([1, 2, 4, 8], [1.0, 2.0, 0.0, 3.0], "positive throughput"),
        ],
    )
    def test_says_why_there_is_no_fit(
        self, customers: list[float], throughput: list[float], reason: str
    ) -> None:
        found = fit(customers, throughput)
        assert isinstance(found, str)
        assert reason in found

    def test_only_saturated_levels_do_not_tell_what_one_customer_does(self) -> None:
        random = np.random.default_rng(1)
        found = fit([100, 200, 300, 400] * 2, (1000 * random.normal(1, 0.05, 8)).tolist())
        assert isinstance(found, str)
        assert "fewer customers" in found or "equally well" in found


class TestStations:
    def test_operational_laws(self) -> None:
        station = Station("processors", servers=2, busy=1.5, throughput_per_s=3000)
        assert station.utilisation == 0.75
        assert station.demand_s == pytest.approx(0.0005)
        assert station.limit_per_s == pytest.approx(4000)
        assert Station("idle", 1, 0.0, 10.0).limit_per_s == math.inf

    @given(st.floats(0.01, 0.99), st.floats(1e-6, 10))
    def test_mm1(self, utilisation: float, service: float) -> None:
        queue = Queue(utilisation / service, service)
        assert queue.waiting_probability == pytest.approx(utilisation)
        assert queue.response_s == pytest.approx(service / (1 - utilisation))

    @given(st.floats(0.01, 0.99), st.integers(1, 60))
    def test_erlangs_c_as_the_sum_that_defines_it(self, utilisation: float, servers: int) -> None:
        load = utilisation * servers
        full = load**servers / math.factorial(servers) / (1 - utilisation)
        there = sum(load**n / math.factorial(n) for n in range(servers))
        assert Queue(load, 1.0, servers).waiting_probability == pytest.approx(full / (there + full))

    def test_many_servers_do_not_overflow(self) -> None:
        assert 0 < Queue(990.0, 1.0, 1000).waiting_probability < 1

    def test_beyond_its_capacity_there_is_no_mean(self) -> None:
        queue = Queue(2.0, 1.0, 2)
        assert not queue.stable
        assert queue.response_s == math.inf

    @pytest.mark.parametrize("values", [(-1.0, 1.0, 1), (1.0, 0.0, 1), (1.0, 1.0, 0)])
    def test_nonsense_is_refused(self, values: tuple[float, float, int]) -> None:
        with pytest.raises(ValueError, match="positive"):
            Queue(*values)


class TestTwoLevels:
    def test_worked_example(self) -> None:
        found = analyse(("memory", "cache"), JAIN)
        effects = {effect.factors: effect for effect in found.effects}
        assert found.mean.value == pytest.approx(41)
        assert effects[("memory",)].value == pytest.approx(21.5)
        assert effects[("cache",)].value == pytest.approx(9.5)
        assert effects[("memory", "cache")].value == pytest.approx(5)
        assert effects[("memory",)].share == pytest.approx(0.7888, abs=1e-3)
        assert effects[("cache",)].share == pytest.approx(0.1540, abs=1e-3)
        assert effects[("memory", "cache")].share == pytest.approx(0.0427, abs=1e-3)
        assert found.error_share == pytest.approx(102 / 7032, abs=1e-4)
        assert found.error_deviation == pytest.approx(3.57, abs=0.01)
        # t(0.975; 8) = 2.306, s_q = 1.03
        assert effects[("cache",)].low == pytest.approx(9.5 - 2.306 * 1.0308, abs=0.01)
        assert all(effect.significant for effect in found.effects)
        assert [effect.factors for effect in found.effects] == [("memory",), ("cache",), ("memory", "cache")]
        assert sorted(found.residuals) == sorted([0, 3, -3, -3, 0, 3, 1, 4, -5, -2, -2, 4])

    @settings(max_examples=30)
    @given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**31))
    def test_variation_is_shared_out_without_a_rest(self, factors: int, repetitions: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        measured = {
            signs: random.uniform(1, 100, repetitions).tolist() for signs in product((-1, 1), repeat=factors)
        }
        found = analyse([f"f{n}" for n in range(factors)], measured)
        explained = sum(effect.share or 0 for effect in found.effects)
        assert explained + found.error_share == pytest.approx(1)
        assert len(found.effects) == 2**factors - 1
        for signs in measured:
            by_model = found.mean.value + sum(
                effect.value * math.prod(signs[int(name[1:])] for name in effect.factors)
                for effect in found.effects
            )
            assert by_model == pytest.approx(float(np.mean(measured[signs])))

    def test_without_repetitions_nothing_is_significant_or_not(self) -> None:
        found = analyse(("a",), {(-1,): [1.0], (1,): [3.0]})
        assert found.effects[0].value == 1
        assert found.effects[0].significant is None
        assert found.error_deviation is None
        assert found.error_share == 0

    def test_what_never_varies_explains_nothing(self) -> None:
        found = analyse(("a",), {(-1,): [2.0, 2.0], (1,): [2.0, 2.0]})
        assert found.effects[0].share == 0
        assert found.effects[0].significant is False

    @pytest.mark.parametrize(
        ("measured", "reason"),
        [
            ({(-1,): [1.0, 2.0], (1,): [1.0]}, "equally many"),
            ({(-1,): [1.0]}, "every combination"),
            ({(-1,): [], (1,): []}, "equally many"),
        ],
    )
    def test_a_design_that_is_not_whole_is_refused(
        self, measured: dict[tuple[int, ...], list[float]], reason: str
    ) -> None:
        with pytest.raises(ValueError, match=reason):
            analyse(("a",), measured)

    def test_magnitudes_apart_ask_for_logarithms(self) -> None:
        assert analyse(("a",), {(-1,): [1.0], (1,): [50.0]}).multiplies
        assert not analyse(("a",), {(-1,): [15.0, 18.0], (1,): [45.0, 48.0]}).multiplies

    def test_normal_quantiles_of_normal_values_are_a_line(self) -> None:
        values = np.random.default_rng(3).normal(2, 5, 400)
        found = normal_quantiles(values.tolist())
        assert found.slope == pytest.approx(5, rel=0.1)
        assert found.intercept == pytest.approx(2, abs=0.6)
        assert found.probability is not None
        assert found.probability > 0.01

    def test_values_that_are_not_normal_are_found_out(self) -> None:
        values = np.random.default_rng(3).exponential(1, 400)
        probability = normal_quantiles(values.tolist()).probability
        assert probability is not None
        assert probability < 1e-6

    def test_equal_values_are_not_tested(self) -> None:
        assert normal_quantiles([1.0, 1.0, 1.0]).probability is None
