"""The pages for users of other systems: their commands print what the pages show, and each translated view is the page's own."""

from pathlib import Path

import pytest

from tests.documented import DOCS, Command, File, steps

PAGES = sorted(path.name for path in DOCS.glob("coming-from-*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_shows(
    page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tandem.toml").touch()
    ran = 0
    for step in steps(page):
        match step:
            case File(name, text):
                file = Path(name)
                # A second block of a file is appended, as the page asks.
                file.write_text(f"{file.read_text()}\n{text}" if file.exists() else text)
            case Command():
                step.show(capsys)
                ran += 1
    assert ran >= 2


def test_every_page_is_run() -> None:
    assert PAGES == [
        "coming-from-dbt.md",
        "coming-from-flink-and-spark.md",
        "coming-from-kafka-streams.md",
        "coming-from-timescale.md",
    ]
