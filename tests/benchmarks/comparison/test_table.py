"""The table of a comparison: ratios within a repetition, targets, audits, what was skipped."""

import json
from dataclasses import replace

import pytest

from telesto.benchmarks.comparison.compare import WORKS, Comparison, Run, Size, Work
from telesto.benchmarks.comparison.table import as_plain, facts_of, render, targets
from telesto.benchmarks.results.audit import Balance

CPU = {"client": 12.5, "server": 25.0}
CLEAN = Balance(100, 100, 0, 0, 0, 0, None, 0)


def a_run(per_second: float, delay_ms: float = 1.0) -> Run:
    return Run(per_second, delay_ms, 4 * delay_ms, dict(CPU), CLEAN, {})


def a_comparison(**different: list[Run]) -> Comparison:
    """Telesto reaches every target by far, unless a peer's runs are given (dashes written as _)."""
    names = ("telesto", "rabbitmq-classic", "rabbitmq-quorum", "nats", "pgmq")
    found = {name: [a_run(1_000, 5.0)] * 3 for name in names} | {"telesto": [a_run(9_000)] * 3}
    found |= {name.replace("_", "-"): runs for name, runs in different.items()}
    comparison = Comparison(Size(), settings={name: {"version": "1"} for name in found})
    for work in WORKS:
        comparison.runs[work] = dict(found)
    return comparison


def test_ratios_are_of_one_repetition() -> None:
    comparison = a_comparison(
        telesto=[a_run(1_000), a_run(4_000), a_run(10_000)], nats=[a_run(100), a_run(1_000), a_run(500)]
    )
    text = render(comparison, {"taken": "today"})
    assert "10.00 (4.00 to 20.00)" in text, text
    assert "taken: today" in text
    assert "5 repetitions of 5 s" in text
    assert "- version: 1" in text


def test_all_targets_are_evaluated_and_reached() -> None:
    found = targets(a_comparison())
    assert len(found) == 10
    assert [target.what for target in found if not target.reached] == []


@pytest.mark.parametrize(
    ("name", "run", "missed"),
    [
        ("rabbitmq_quorum", a_run(2_000, 5.0), ["put against RabbitMQ, the faster queue type"]),
        (
            "rabbitmq_classic",
            a_run(4_000, 5.0),
            [
                "put against RabbitMQ, the faster queue type",
                "end-to-end against RabbitMQ, the faster queue type",
            ],
        ),
        ("nats", a_run(7_000, 5.0), ["put against NATS JetStream with its default sync"]),
        (
            "rabbitmq_quorum",
            a_run(1_000, 0.9),
            [
                "median delay against RabbitMQ, the faster queue type",
                "p99 delay against RabbitMQ, the faster queue type",
            ],
        ),
        ("pgmq", replace(a_run(1_000, 5.0), p99_ms=3.9), ["p99 delay against PGMQ by single calls"]),
        ("pgmq", a_run(2_000, 5.0), ["put against PGMQ by single calls"]),
    ],
)
def test_the_better_rival_decides(name: str, run: Run, missed: list[str]) -> None:
    found = targets(a_comparison(**{name: [run] * 3}))
    assert [target.what for target in found if not target.reached] == missed


def test_a_loss_of_telestos_misses_a_target_and_one_of_a_peer_is_told() -> None:
    lost = replace(a_run(9_000), audit=replace(CLEAN, lost=2))
    assert not targets(a_comparison(telesto=[lost] * 3))[-1].reached
    text = render(a_comparison(nats=[replace(lost, errors={"NoServersError": 3})] * 3), {})
    assert "nats: NoServersError" in text
    header, _, *rows = text.split("Audit of every run, in messages")[1].strip().splitlines()
    (row,) = [row for row in rows if row.startswith("| nats ") and " 900 " in row]
    column = [name.strip() for name in header.split("|")].index("lost")
    assert row.split("|")[column].strip() == "18", "2 in each of 9 runs"


def test_without_its_peers_a_target_is_not_evaluated() -> None:
    comparison = a_comparison()
    for found in comparison.runs.values():
        del found["nats"], found["pgmq"], found["rabbitmq-classic"]
    whats = [target.what for target in targets(comparison)]
    assert len(whats) == 5
    assert not any("NATS" in what or "PGMQ" in what for what in whats)
    only: Work = "put"
    del comparison.runs[only]["telesto"]
    assert "rabbitmq-quorum" in render(comparison, {}), "a table without ratios"


def test_what_was_skipped_and_unfinished_is_told() -> None:
    comparison = a_comparison(nats=[replace(a_run(1_000), unfinished=True)] * 3)
    comparison.skipped["redis"] = "no redis-server: apt-get install redis-server"
    text = render(comparison, {})
    assert "- redis: no redis-server" in text
    assert "nats: consumers did not take everything in 9 runs" in text


def test_a_comparison_that_was_ended_early_shows_what_it_has() -> None:
    comparison = a_comparison()
    comparison.runs["latency"] = {name: [] for name in comparison.runs["latency"]}
    text = render(comparison, {})
    assert "Durable puts" in text
    assert "open loop" not in text
    assert len(targets(comparison)) == 6
    comparison.runs.clear()
    assert [target.reached for target in targets(comparison)] == [False], "nothing was shown"
    assert render(comparison, {})


def test_everything_goes_into_json() -> None:
    plain = json.loads(json.dumps(as_plain(a_comparison(), facts_of(None))))
    assert plain["runs"]["put"]["nats"][0]["per_second"] == 1_000
    assert len(plain["targets"]) == 10
    assert {"taken", "processors", "file system"} <= set(plain["facts"])
