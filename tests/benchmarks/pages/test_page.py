"""How figures are written, for people and as CSV."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest

from telesto.benchmarks.pages import plots
from telesto.benchmarks.pages.page import PAGE, Finding, Report, write_report
from telesto.benchmarks.pages.section import Field, Figures, Kind, Section, shown

MOMENT = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
HOSTILE = "<script>alert('$x$')</script>"


def section(rows: int = 1) -> Section:
    fields = (Field("queue", "queue", Kind.TEXT), Field("wait_s", "wait", Kind.SECONDS))
    plot = plots.stacked_bars([HOSTILE], {"waiting": [3]}, "messages")
    figures = Figures("queues", fields, tuple((HOSTILE, 0.5) for _ in range(rows)), 70)
    return Section("Queues", "What there is.", figures, plot, "As it was.")


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, Kind.COUNT, "–"),
        (1234567, Kind.COUNT, "1,234,567"),
        (0.0, Kind.SECONDS, "0 µs"),
        (0.00042, Kind.SECONDS, "420 µs"),
        (0.5, Kind.SECONDS, "500 ms"),
        (90.0, Kind.SECONDS, "90 s"),
        (600.0, Kind.SECONDS, "10 min"),
        (7200.0, Kind.SECONDS, "2 h"),
        (864_000.0, Kind.SECONDS, "10 d"),
        (1_500_000, Kind.BYTES, "1.5 MB"),
        (0.255, Kind.SHARE, "25.5%"),
        (0.75, Kind.RATIO, "0.75"),
        (999.7, Kind.RATIO, "1,000"),
        (45_678.9, Kind.RATIO, "45,679"),
        (-1_500_000, Kind.BYTES, "-1.5 MB"),
        (999.9, Kind.BYTES, "1,000 B"),
        (0.031, Kind.CHANGE, "+3.1%"),
        (-0.2, Kind.CHANGE, "-20.0%"),
        (-0.0001, Kind.CHANGE, "0.0%"),
        (MOMENT, Kind.MOMENT, "2026-01-05 12:00:00"),
        ("orders", Kind.TEXT, "orders"),
    ],
)
def test_values_are_written_in_units_that_suit_them(value: float, kind: Kind, text: str) -> None:
    assert shown(value, kind) == text


def test_csv_has_the_values_themselves() -> None:
    fields = (Field("queue", "q", Kind.TEXT), Field("at", "t", Kind.MOMENT), Field("n", "n", Kind.COUNT))
    figures = Figures("k", fields, (('a,"b"', MOMENT, 5), ("c", None, None)), 2)
    assert figures.as_csv() == 'queue,at,n\n"a,""b""",2026-01-05T12:00:00+00:00,5\nc,,\n'


def test_a_name_cannot_write_the_page() -> None:
    page = Report("T", "S", [("queues", "1")], [Finding("good", "fine")], [section()]).as_html()
    assert "<script" not in page
    assert "&lt;script" in page


def test_a_page_needs_nothing_from_elsewhere() -> None:
    page = Report("T", "S", [("queues", "1")], [], [section()]).as_html()
    for reference in ('src="http', 'href="http', "url(http", "@import", "<link"):
        assert reference not in page


def test_a_table_that_is_cut_says_so() -> None:
    assert "The first 50 of 70" in Report("T", "S", [], [], [section(60)]).as_html()


def test_the_terminal_gets_the_figures_and_the_findings() -> None:
    text = Report("T", "S", [("queues", "1")], [Finding("bad", "it broke")], []).as_text()
    assert text.splitlines() == ["T", "queues  1", "it broke"]


def test_sections_stand_under_the_name_of_their_group() -> None:
    parts = [replace(section(), group=group) for group in ("", "run 1", "run 1", "run 2")]
    page = Report("T", "S", [("queues", "1")], [], parts).as_html()
    assert re.findall(r'<h2 class="group">(.*?)</h2>', page) == ["run 1", "run 2"]


def test_a_column_can_be_for_the_figures_only() -> None:
    fields = (Field("queue", "queue", Kind.TEXT), Field("inner", "INNER", Kind.COUNT, on_page=False))
    figures = Figures("k", fields, (("orders", 98765),), 1)
    page = Report("T", "S", [("queues", "1")], [], [Section("T", "M", figures)]).as_html()
    assert "orders" in page
    assert "INNER" not in page
    assert "98,765" not in page
    assert figures.as_csv() == "queue,inner\norders,98765\n"


def test_figures_that_are_not_on_the_page_are_written_too(tmp_path: Path) -> None:
    more = Figures("finer", (Field("n", "n", Kind.COUNT),), ((1,), (2,)), 2)
    write_report(Report("T", "S", [("q", "1")], [], [replace(section(), more=(more,))]), tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["finer.csv", PAGE, "queues.csv", "queues.svg"]
    assert (tmp_path / "out" / "finer.csv").read_text() == "n\n1\n2\n"


def test_plots_are_written_to_stand_by_themselves(tmp_path: Path) -> None:
    write_report(Report("T", "S", [("q", "1")], [], [section()]), tmp_path / "out")
    plot = ElementTree.parse(tmp_path / "out" / "queues.svg").getroot()
    assert plot.tag == "{http://www.w3.org/2000/svg}svg"
    assert "background" in plot.attrib["style"]
