"""What the tests of the examples share."""

import os
from collections.abc import Callable, Iterator

import pytest

from programs import Program


@pytest.fixture
def start(telesto_url: str, request: pytest.FixtureRequest) -> Iterator[Callable[..., Program]]:
    """Start a program of the example's folder, ``start("worker.py", "argument")``; it ends with the test."""
    programs: list[Program] = []

    def start_program(*command: str, with_errors: bool = False, **variables: str) -> Program:
        environment = {**os.environ, "TELESTO_URL": telesto_url, **variables}
        programs.append(Program(command, request.path.parent, environment, with_errors))
        return programs[-1]

    yield start_program
    for program in programs:
        program.kill()
