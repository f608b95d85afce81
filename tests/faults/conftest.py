"""The mark of the tests that hurt processes: ``pytest -m "not faults"`` leaves them out."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "faults: starts, stops and kills processes; takes a while")
