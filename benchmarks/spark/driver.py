"""The JDBC driver of PostgreSQL: one that is named, the system's, or one that Spark fetches."""

from __future__ import annotations

from pathlib import Path

from telesto.benchmarks.spark.errors import SparkSetupError

SYSTEM_JAR = Path("/usr/share/java/postgresql.jar")
"""Where Debian's and Ubuntu's libpostgresql-jdbc-java puts it."""
PACKAGE = "org.postgresql:postgresql:42.7.4"
"""What Spark fetches from Maven's repository where there is no file."""
CLASS = "org.postgresql.Driver"
ADVICE = "on Debian and Ubuntu `apt-get install libpostgresql-jdbc-java`, or name the file by --driver-jar"


def driver_settings(given: Path | None, system: Path = SYSTEM_JAR) -> dict[str, str]:
    """Return the settings of Spark that bring the driver.

    Args:
        given: the jar to use; None: the system's, or Spark fetches one.
        system: where the system's would be.

    Raises:
        SparkSetupError: the jar that was named is no file.
    """
    if given is not None:
        if not given.is_file():
            raise SparkSetupError(f"there is no JDBC driver {given}; {ADVICE}")
        return {"spark.jars": str(given)}
    if system.is_file():
        return {"spark.jars": str(system)}
    return {"spark.jars.packages": PACKAGE}
