"""Latencies as HdrHistograms of each second and operation: merged for longer times, never averaged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from hdrh.histogram import HdrHistogram

LOWEST_US: Final = 1
HIGHEST_US: Final = 3_600_000_000
SIGNIFICANT_DIGITS: Final = 3
US_PER_S: Final = 1e6
_KEPT_BITS: Final = 10
"""Bits after the first that three digits need."""
PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9)

Seconds = np.ndarray[Any, np.dtype[np.float32]]


def new_histogram() -> HdrHistogram:
    """Return an empty histogram of microseconds."""
    return HdrHistogram(LOWEST_US, HIGHEST_US, SIGNIFICANT_DIGITS)


def histogram_of(seconds: Seconds) -> HdrHistogram:
    """Return the histogram of durations in seconds; values outside its range count at its ends."""
    histogram = new_histogram()
    microseconds = np.clip(np.rint(seconds * US_PER_S), LOWEST_US, HIGHEST_US).astype(np.int64)
    # Round to the histogram's own resolution: fewer values have to be recorded.
    spare_bits = np.maximum(np.floor(np.log2(microseconds)).astype(np.int64) - _KEPT_BITS, 0)
    microseconds = (microseconds >> spare_bits) << spare_bits
    for value, count in zip(*np.unique(microseconds, return_counts=True), strict=True):
        histogram.record_value(int(value), int(count))
    return histogram


def encode(histogram: HdrHistogram) -> str:
    """Return a histogram in the compressed V2 encoding of HdrHistogram, base64."""
    encoded: bytes = histogram.encode()
    return encoded.decode("ascii")


@dataclass(frozen=True, slots=True)
class Latencies:
    """The figures of a histogram, in milliseconds; 0 if nothing was recorded."""

    count: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    mean_ms: float

    @classmethod
    def of(cls, histogram: HdrHistogram) -> Latencies:
        """Read the figures off a histogram."""
        count = int(histogram.get_total_count())
        if not count:
            return cls(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        p50, p90, p99, p999 = (histogram.get_value_at_percentile(each) / 1000 for each in PERCENTILES)
        greatest, mean = histogram.get_max_value() / 1000, histogram.get_mean_value() / 1000
        return cls(count, p50, p90, p99, p999, greatest, mean)
