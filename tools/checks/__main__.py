"""Run every check and list what is wrong: ``python -m tools.checks``."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.checks.documentation import documentation_problems
from tools.checks.migrations import migration_problems
from tools.checks.procedures import procedure_problems
from tools.checks.tables import table_problems

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Print each problem on a line of its own; the exit status is 1 when there is any."""
    problems = [
        *documentation_problems(ROOT),
        *migration_problems(ROOT / "db" / "migrations" / "versions"),
        *procedure_problems(ROOT / "db" / "procedures"),
        *table_problems(ROOT),
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
