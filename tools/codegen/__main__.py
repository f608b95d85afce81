"""The generator's command line: ``python -m tools.codegen [--verify]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.codegen.generating import generate, verify
from tools.codegen.loading import SpecError
from tools.codegen.parts import PartError
from tools.codegen.procedures import ProcedureError
from tools.codegen.rendering import RenderError

_ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None) -> int:
    """Runs the generator; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.codegen", description=sys.modules["tools.codegen"].__doc__
    )
    parser.add_argument(
        "--verify", action="store_true", help="change nothing; fail when something would change"
    )
    parser.add_argument("--root", type=Path, default=_ROOT, help="root of the repository (default: this one)")
    options = parser.parse_args(arguments)
    try:
        return _verify(options.root) if options.verify else _generate(options.root)
    except (SpecError, PartError, ProcedureError, RenderError) as error:
        print(f"tools.codegen: {error}", file=sys.stderr)
        return 2


def _generate(root: Path) -> int:
    for name in generate(root):
        print(f"wrote {name}")
    return 0


def _verify(root: Path) -> int:
    problems = verify(root)
    for problem in problems:
        print(f"tools.codegen: {problem}; run python -m tools.codegen", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
