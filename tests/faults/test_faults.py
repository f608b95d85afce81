"""A small run of everything at once: clients at work while processes, connections and the database fail."""

from __future__ import annotations

import random

import pytest

from .faults import KINDS
from .run import WORK, perform, remove_directory, scratch_directory

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("work", WORK)
async def test_a_small_run_loses_doubles_and_disorders_nothing(work: str) -> None:
    seed = random.SystemRandom().randrange(1 << 31)
    directory = scratch_directory()
    print(f"seed {seed}, histories and logs in {directory}")
    report = await perform(work, "small", seed, list(KINDS), directory)
    assert not report.problems, "\n".join(report.lines())
    remove_directory(directory)
