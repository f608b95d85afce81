"""One Spark for all tests of a process; without Java they are skipped, for nothing else here needs it."""

import warnings
from collections.abc import Iterator

import pytest

from telesto.benchmarks.spark.errors import SparkSetupError

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}
"""For many small queries: what makes large ones quick costs each of these half a second."""


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    from telesto.benchmarks.spark.session import SYSTEM_JAR, require_java, spark_session

    try:
        require_java()
        if not SYSTEM_JAR.is_file():
            raise SparkSetupError(f"there is no {SYSTEM_JAR}; apt-get install libpostgresql-jdbc-java")
    except SparkSetupError as error:
        pytest.skip(str(error))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with spark_session(SETTINGS) as session:
            yield session
