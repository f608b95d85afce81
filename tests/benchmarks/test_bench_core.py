"""The command line of the experiment, and how load is spread."""

from pathlib import Path

import pytest

from telesto.benchmarks.core import parse
from telesto.benchmarks.experiment import FULL_SIZE, QUICK_SIZE
from telesto.benchmarks.load import LoadPlan
from telesto.benchmarks.runs import STREAMS_PER_WORKER, split_load
from telesto.benchmarks.sections import SECTIONS


def test_without_arguments_everything_is_measured() -> None:
    options = parse([])
    assert (options.size, tuple(options.sections), options.middlewares) == (FULL_SIZE, tuple(SECTIONS), 1)


def test_arguments_change_the_size() -> None:
    options = parse(["--quick", "--seconds", "2", "--only", "put", "--only", "idle", "--json", "x.json"])
    assert options.size.seconds == 2
    assert options.size.repetitions == QUICK_SIZE.repetitions
    assert (options.sections, options.json_file) == (["put", "idle"], Path("x.json"))


def test_an_unknown_section_is_refused() -> None:
    with pytest.raises(SystemExit):
        parse(["--only", "nothing"])


@pytest.mark.parametrize(("connections", "shares"), [(1, [1]), (5, [3, 2]), (64, [32, 32])])
def test_connections_are_spread_evenly_with_streams_apart(connections: int, shares: list[int]) -> None:
    plan = LoadPlan(["telesto://x"], [1], "put", connections, 1, 1.0, "/nowhere")
    plans = split_load(plan, generators=2)
    assert [part.connections for part in plans] == shares
    assert [part.first_stream for part in plans] == [i * STREAMS_PER_WORKER for i in range(len(shares))]
