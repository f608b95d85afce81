"""The report renders what was measured, and judges it by the targets."""

import json
from dataclasses import replace

from telesto.benchmarks.audit import Balance
from telesto.benchmarks.delivery import Deliveries, deliveries_part
from telesto.benchmarks.figures import ratio, table
from telesto.benchmarks.idle import Idle
from telesto.benchmarks.idle_part import idle_part
from telesto.benchmarks.measurement import Latency, Measurement
from telesto.benchmarks.report import Report, as_plain, render
from telesto.benchmarks.steady import Steady
from telesto.benchmarks.steady_part import steady_part
from telesto.benchmarks.throughput import MANY, ONE, PIPELINED, Throughput, Ungathered
from telesto.benchmarks.throughput_part import throughput_part

CLEAN = Balance(
    put=10, handed_over=0, left=10, in_doubt=0, lost=0, duplicated=0, out_of_order=None, foreign=0
)


def measurement(per_second: float, put_ms: float = 1.0, audit: Balance = CLEAN) -> Measurement:
    latency = Latency(put_ms / 1000, put_ms / 500)
    cpu = {"client": 1.0, "middleware": 2.0, "postgres": 3.0}
    thirds = {tier: [us, us, us + 0.5] for tier, us in cpu.items()}
    return Measurement(per_second, [int(per_second)] * 6, latency, latency, cpu, thirds, audit, {})


def throughput() -> Throughput:
    return Throughput(
        "put-read",
        Ungathered(16, 64),
        service={
            ONE: [measurement(100, 1.5)] * 3,
            MANY: [measurement(rate) for rate in (500, 600, 700)],
            PIPELINED: [measurement(900)] * 3,
        },
        ceiling={shape: [measurement(2000)] * 3 for shape in (ONE, MANY, PIPELINED)},
        ungathered=[measurement(100)] * 3,
        single_call=[measurement(150, 1.0)] * 3,
    )


STEADY = Steady("alone", measurement(300))
IDLE = Idle(5000, 5000, 8192, 60 * 2**20, 120 * 2**20)
DELIVERIES = Deliveries("put", once=[measurement(60)] * 3, fast=[measurement(100)] * 3)


def a_report(
    found: Throughput | None = None,
    steady: Steady = STEADY,
    idle: Idle = IDLE,
    deliveries: Deliveries = DELIVERIES,
) -> Report:
    parts = [
        throughput_part(found or throughput()),
        deliveries_part([deliveries]),
        steady_part([steady]),
        idle_part(idle),
    ]
    return Report({"processors": "2 x test"}, {"fsync": "on"}, parts)


def reached(report: Report) -> dict[str, bool]:
    return {target.what.partition(":")[0]: target.reached for target in report.targets}


def test_every_row_and_target_is_there() -> None:
    text = render(a_report())
    for part in (
        "3.0 |        3.5",
        "processors: 2 x test",
        "fsync: on",
        "8 x 64",
        "6.00 (5.00 to 7.00)",
        "0.45",
        "120 MiB",
        "0.60 (0.60 to 0.60)",
    ):
        assert part in text
    assert text.count("| yes") + text.count("yes |") >= 6


def test_targets_are_decided_by_the_medians() -> None:
    found = {target.what: target.reached for target in a_report().targets}
    assert found["put-read, 64: times without gathering"]
    assert found["put-read, 8 x 64: share of the ceiling"]
    assert found["put-read, 1: latency of a put, times a bare call"]
    assert all(found.values())


def test_missed_targets_are_said() -> None:
    found = throughput()
    found.service[MANY] = [measurement(400)] * 3
    found.service[PIPELINED] = [measurement(700)] * 3
    found.service[ONE] = [measurement(100, 1.7)] * 3
    falling = Steady("alone", replace(measurement(300), series=[100, 100, 90, 90, 80, 80]))
    full = Idle(5000, 5000, 8192, 60 * 2**20, 151 * 2**20)
    slow = Deliveries("put", once=[measurement(40)] * 3, fast=[measurement(100)] * 3)
    report = a_report(found, falling, full, slow)
    assert [target.reached for target in report.targets] == [False] * 7 + [True]
    assert render(report).count("NO") == 7


def test_fewer_idle_connections_than_wanted_do_not_reach_the_target() -> None:
    report = a_report(idle=Idle(5000, 700, 1024, 60 * 2**20, 70 * 2**20))
    assert not reached(report)["resident memory of a middleware with 700 idle connections"]
    assert "raise the limit" in render(report)


def test_a_bad_audit_of_any_run_is_said() -> None:
    found = throughput()
    lossy = replace(CLEAN, lost=1, duplicated=2, examples=(42,))
    found.ungathered[1] = measurement(100, audit=lossy)
    report = a_report(found)
    assert not reached(report)["audit of every run"]
    assert "1 lost, 2 duplicated" in render(report)
    assert "for example: 42" in render(report)


def test_errors_of_requests_are_said() -> None:
    report = a_report(steady=Steady("alone", replace(measurement(300), errors={"OverloadedError": 3})))
    assert "Requests that failed: 3 (OverloadedError)" in render(report)


def test_ratios_are_taken_within_a_repetition() -> None:
    found = ratio([10, 20, 30], [10, 10, 0])
    assert (found.median, found.least, found.greatest) == (1.0, 0.0, 2.0)


def test_a_table_is_aligned() -> None:
    assert table(["a", "bb"], [["xx", "1"]]) == "| a  | bb |\n| -- | -: |\n| xx |  1 |"


def test_the_report_as_json_holds_every_run() -> None:
    plain = json.loads(json.dumps(as_plain(a_report())))
    assert plain["put-read"]["arms"]["service 8 x 64"][0]["per_second"] == 900
    assert plain["delivery"][0]["once"][2]["per_second"] == 60
    assert plain["idle"]["connections"] == 5000
    assert all(target["reached"] for target in plain["targets"])
