"""What has to be there before a run can be measured."""

import resource

import pytest

from telesto.benchmarks.harness import one_run
from telesto.benchmarks.load.settings import RunSettings


def test_too_few_open_files_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (100, 100))
    monkeypatch.setattr(resource, "setrlimit", lambda _which, _limits: None)
    with pytest.raises(one_run.OpenFilesError, match=r"5,000 clients need more than 100 open files"):
        one_run.raise_limits(RunSettings(clients=5000))
