"""A middleware of the demonstration, a process: `telesto serve` that ends with the demonstration."""

from __future__ import annotations

import sys

from telesto.cli.common.app import execute
from telesto.cli.demo.processes import end_with_the_demonstration

SERVE = ["serve", "--host", "127.0.0.1", "--port", "0", "--json"]

if __name__ == "__main__":
    end_with_the_demonstration()
    sys.exit(execute(SERVE))
