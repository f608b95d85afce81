"""How often something happened, by time since the beginning of a run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from telesto.benchmarks.measurement import Timing

BUCKET_S: Final = 0.05


class Buckets:
    """Counts what happens, by time since the beginning.

    Attributes:
        began: the beginning, by the monotonic clock.
        counts: how much there was in each BUCKET_S.
    """

    def __init__(self, seconds: float) -> None:
        self.began = 0.0
        self.counts = [0] * (int(seconds / BUCKET_S) + 2)

    def count(self) -> None:
        """Count one, now."""
        bucket = int((time.monotonic() - self.began) / BUCKET_S)
        if 0 <= bucket < len(self.counts):
            self.counts[bucket] += 1


def rate(counts: Sequence[int], timing: Timing) -> float:
    """Return how much there was per second in the measured part."""
    first = round(timing.warm_up_s / BUCKET_S)
    measured = round(timing.measured_s / BUCKET_S)
    return sum(counts[first : first + measured]) / timing.measured_s
