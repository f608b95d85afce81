"""Which Java Spark would run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from telesto.benchmarks.spark.errors import SparkSetupError

JAVA_MIN = 17
"""The oldest Java that Spark 4 runs on."""
ANSWER_TIMEOUT_S = 60
_VERSION = re.compile(r'version "(?:1\.)?(?P<major>\d+)')
_ADVICE = f"Spark needs Java {JAVA_MIN} or later: on Debian and Ubuntu `apt-get install default-jre-headless`"


def require_java() -> int:
    """Return the major version of the Java that Spark will use.

    Raises:
        SparkSetupError: there is none, or it is too old.
    """
    program = _program()
    said = _ask(program)
    found = _VERSION.search(said)
    if found is None:
        raise SparkSetupError(f"{program} does not tell its version; {_ADVICE}")
    major = int(found["major"])
    if major < JAVA_MIN:
        raise SparkSetupError(f"{program} is Java {major}; {_ADVICE}, or let JAVA_HOME name a later one")
    return major


def _program() -> str:
    if home := os.environ.get("JAVA_HOME"):
        program = Path(home) / "bin" / "java"
        if not os.access(program, os.X_OK):
            raise SparkSetupError(f"JAVA_HOME is {home}, where there is no bin/java; {_ADVICE}")
        return str(program)
    found = shutil.which("java")
    if found is None:
        raise SparkSetupError(f"there is no Java; {_ADVICE}, or let JAVA_HOME name one")
    return found


def _ask(program: str) -> str:
    try:
        done = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=ANSWER_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkSetupError(f"{program} cannot be run ({error}); {_ADVICE}") from error
    return done.stderr + done.stdout
