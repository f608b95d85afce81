"""What a report needs before it begins: Java, a driver, settings, a place to go to."""

from pathlib import Path

import pytest

from telesto.benchmarks.pages.page import PAGE, new_directory, require_place
from telesto.benchmarks.spark import session
from telesto.benchmarks.spark.errors import ReportError, SparkSetupError


def fake_java(home: Path, version: str) -> None:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    program.chmod(0o755)


class TestJava:
    @pytest.mark.parametrize(
        ("said", "major"),
        [
            ('openjdk version "17.0.15" 2025-04-15', 17),
            ('java version "21" 2023-09-19 LTS', 21),
            ('openjdk version "25-ea" 2025-09-16', 25),
        ],
    )
    def test_a_version_that_will_do(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, major: int
    ) -> None:
        fake_java(tmp_path, said)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        assert session.require_java() == major

    @pytest.mark.parametrize(
        ("said", "told"),
        [
            ('openjdk version "11.0.2" 2019-01-15', "is Java 11"),
            ('java version "1.8.0_202"', "is Java 8"),
            ("nothing of use", "does not tell its version"),
        ],
    )
    def test_one_that_will_not(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, told: str
    ) -> None:
        fake_java(tmp_path, said)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        with pytest.raises(SparkSetupError, match=told):
            session.require_java()

    def test_none_at_all(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(SparkSetupError, match=r"there is no Java.*apt-get"):
            session.require_java()

    def test_java_home_that_is_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        with pytest.raises(SparkSetupError, match="no bin/java"):
            session.require_java()


class TestDriver:
    def test_the_named_jar_goes_first_then_the_system_s_then_spark_fetches_one(self, tmp_path: Path) -> None:
        named, system = tmp_path / "named.jar", tmp_path / "system.jar"
        assert session.driver_settings(None, system) == {"spark.jars.packages": session.PACKAGE}
        system.touch()
        assert session.driver_settings(None, system) == {"spark.jars": str(system)}
        named.touch()
        assert session.driver_settings(named, system) == {"spark.jars": str(named)}

    def test_a_jar_that_is_not_there_is_said_so(self, tmp_path: Path) -> None:
        with pytest.raises(SparkSetupError, match=r"no JDBC driver .*absent\.jar"):
            session.driver_settings(tmp_path / "absent.jar")


class TestSettings:
    def test_any_setting_passes_through_and_goes_before_the_report_s(self) -> None:
        given = session.parse_settings(
            ["spark.master=spark://far:7077", "spark.driver.memory=4g", "spark.x=a=b"]
        )
        merged = session.merged_settings(given, {"spark.jars": "driver.jar"})
        assert merged["spark.master"] == "spark://far:7077"
        assert merged["spark.driver.memory"] == "4g"
        assert merged["spark.x"] == "a=b"
        assert merged["spark.sql.session.timeZone"] == "UTC"
        assert "spark.driver.bindAddress" not in merged

    def test_the_user_goes_before_what_suits_small_data_too(self) -> None:
        merged = session.merged_settings({"spark.sql.adaptive.enabled": "true"}, {}, session.FOR_RUNS)
        assert merged["spark.sql.adaptive.enabled"] == "true"
        assert merged["spark.sql.shuffle.partitions"] == session.FOR_RUNS["spark.sql.shuffle.partitions"]

    def test_jars_of_the_user_are_kept_beside_the_driver(self) -> None:
        merged = session.merged_settings({"spark.jars": "mine.jar"}, {"spark.jars": "driver.jar"})
        assert merged["spark.jars"] == "mine.jar,driver.jar"

    def test_a_local_session_listens_on_this_machine_alone(self) -> None:
        assert session.merged_settings({}, {})["spark.driver.bindAddress"] == "127.0.0.1"

    @pytest.mark.parametrize("text", ["spark.master", "master=local", ""])
    def test_what_is_no_setting_is_said_so(self, text: str) -> None:
        with pytest.raises(SparkSetupError, match="no setting of Spark"):
            session.parse_settings([text])


class TestDestination:
    def test_a_failure_leaves_nothing(self, tmp_path: Path) -> None:
        place = tmp_path / "report"
        with pytest.raises(FileNotFoundError), new_directory(place) as new:
            (new / "absent" / PAGE).write_text("half")
        assert list(tmp_path.iterdir()) == []

    def test_a_failure_leaves_the_older_report(self, tmp_path: Path) -> None:
        place = tmp_path / "report"
        for text in ("first", "second"):
            with new_directory(place) as new:
                (new / PAGE).write_text(text)
        with pytest.raises(RuntimeError), new_directory(place) as new:
            raise RuntimeError
        assert (place / PAGE).read_text() == "second"
        assert list(tmp_path.iterdir()) == [place]

    def test_only_a_report_is_replaced_and_only_when_told(self, tmp_path: Path) -> None:
        place = tmp_path / "report"
        require_place(place, replace=False)
        place.mkdir()
        require_place(place, replace=False)
        (place / "precious").touch()
        with pytest.raises(ReportError, match="holds no report"):
            require_place(place, replace=True)
        (place / PAGE).touch()
        require_place(place, replace=True)
        with pytest.raises(ReportError, match="--replace"):
            require_place(place, replace=False)

    def test_a_place_that_cannot_be_made_is_said_so_before_the_work(self, tmp_path: Path) -> None:
        with pytest.raises(ReportError, match="no directory"):
            require_place(tmp_path / "absent" / "report", replace=False)
        (tmp_path / "file").touch()
        with pytest.raises(ReportError, match="not a directory"):
            require_place(tmp_path / "file", replace=True)
