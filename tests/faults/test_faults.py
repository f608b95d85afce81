"""A small run of everything at once: clients at work while processes, connections and the database fail."""

import random

import pytest

from .run import KINDS_ON, WORK, perform, remove_directory, scratch_directory

pytestmark = pytest.mark.faults


#: Works whose database is a primary and its standby, which change places besides; the others have one server.
PAIRED = ("queues",)


@pytest.mark.parametrize("work", WORK)
async def test_a_small_run_loses_doubles_and_disorders_nothing(work: str) -> None:
    database = "pair" if work in PAIRED else "single"
    seed = random.SystemRandom().randrange(1 << 31)
    directory = scratch_directory()
    # Each seed is one of both; the command repeats it.
    secured = seed % 2 == 1
    print(f"seed {seed}{', secured' if secured else ''}, histories and logs in {directory}")
    report = await perform(work, "small", seed, KINDS_ON[database], directory, database, secured=secured)
    assert not report.problems, "\n".join(report.lines())
    remove_directory(directory)
