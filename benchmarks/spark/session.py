"""A Spark session for a report: local on this machine, or as `spark.master` says.

The output of Java and Spark goes to a file, which is quoted if they fail; the terminal is for the report.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from telesto.benchmarks.spark.errors import SparkSetupError

JAVA_MIN = 17
"""The oldest Java that Spark 4 runs on."""
ANSWER_TIMEOUT_S = 60
_VERSION = re.compile(r'version "(?:1\.)?(?P<major>\d+)')
_ADVICE = f"Spark needs Java {JAVA_MIN} or later: on Debian and Ubuntu `apt-get install default-jre-headless`"


def require_java() -> int:
    """Return the major version of the Java that Spark will use.

    Raises SparkSetupError if there is none, or it is too old.
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


SYSTEM_JAR = Path("/usr/share/java/postgresql.jar")
"""The file of Debian's and Ubuntu's libpostgresql-jdbc-java."""
PACKAGE = "org.postgresql:postgresql:42.7.4"
"""The package that Spark fetches from Maven's repository if there is no file."""
CLASS = "org.postgresql.Driver"
ADVICE = "on Debian and Ubuntu `apt-get install libpostgresql-jdbc-java`, or name the file by --driver-jar"


def driver_settings(given: Path | None, system: Path = SYSTEM_JAR) -> dict[str, str]:
    """Return the settings of Spark for the JDBC driver: the given jar, the system's, or one to be fetched.

    Raises SparkSetupError if the given jar is not a file.
    """
    if given is not None:
        if not given.is_file():
            raise SparkSetupError(f"there is no JDBC driver {given}; {ADVICE}")
        return {"spark.jars": str(given)}
    if system.is_file():
        return {"spark.jars": str(system)}
    return {"spark.jars.packages": PACKAGE}


STANDARD_ERROR = 2
PREFIX = "spark."
#: Lists, to which a report adds its own.
LISTS = ("spark.jars", "spark.jars.packages")
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
LOG_LINES_SHOWN = 3

DEFAULTS = {
    "spark.app.name": "telesto report",
    "spark.master": "local[*]",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "16",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{LOG_SETTINGS}",
}
#: Runs have a few megabytes and many small queries: what speeds up a large query costs more than it saves.
FOR_RUNS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}
#: Spark on one machine listens on no other address.
LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def parse_settings(texts: list[str]) -> dict[str, str]:
    """Read settings of Spark, each as `spark.name=value`.

    Raises SparkSetupError for any other form.
    """
    settings = {}
    for text in texts:
        name, given, value = text.partition("=")
        if not given or not name.startswith(PREFIX):
            raise SparkSetupError(f"{text!r} is no setting of Spark; write spark.name=value")
        settings[name.strip()] = value.strip()
    return settings


def merged_settings(
    given: Mapping[str, str], driver: Mapping[str, str], own: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Combine the report's settings with the user's, which take precedence."""
    settings = DEFAULTS | dict(own or {})
    if given.get("spark.master", DEFAULTS["spark.master"]).startswith("local"):
        settings |= LOCAL
    settings |= given
    for name in LISTS:
        both = [value for value in (given.get(name), driver.get(name)) if value]
        if both:
            settings[name] = ",".join(both)
    return settings


def require_setup(driver_jar: Path | None = None) -> None:
    """Raise SparkSetupError if Java, or the given driver, is missing or unsuitable."""
    require_java()
    driver_settings(driver_jar)


@contextmanager
def spark_session(
    given: Mapping[str, str], driver_jar: Path | None = None, *, database: bool = True
) -> Iterator[SparkSession]:
    """Run Spark while the block runs.

    `given` are settings that override the report's own. `driver_jar` is the JDBC driver, by default searched
    for; without `database` none is needed, and the settings suit small data. Raises SparkSetupError if Spark
    does not start.
    """
    require_java()
    driver = driver_settings(driver_jar) if database else {}
    # The workers run the Python of this process, not that of the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(prefix="telesto-report-") as scratch:
        log = Path(scratch) / "spark.log"
        session = _start(
            merged_settings(given, driver, {} if database else FOR_RUNS), log, "spark.jars.packages" in driver
        )
        try:
            yield session
        finally:
            session.stop()


def _start(settings: Mapping[str, str], log: Path, fetched: bool) -> SparkSession:
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        with _standard_error_in(log):
            return builder.getOrCreate()
    except Exception as error:
        said = " / ".join(_last_lines(log)) or str(error)
        reason = f"; the JDBC driver could not be fetched, maybe: {ADVICE}" if fetched else ""
        raise SparkSetupError(f"Spark does not start{reason}: {said}") from error


@contextmanager
def _standard_error_in(log: Path) -> Iterator[None]:
    """Processes that start in the block write their errors to the file, as long as they live."""
    sys.stderr.flush()
    saved = os.dup(STANDARD_ERROR)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), STANDARD_ERROR)
        yield
    finally:
        os.dup2(saved, STANDARD_ERROR)
        os.close(saved)


def _last_lines(log: Path) -> list[str]:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    told = [
        line.strip() for line in lines if line.strip() and not line.lstrip().startswith(("at ", "WARNING"))
    ]
    return told[-LOG_LINES_SHOWN:]
