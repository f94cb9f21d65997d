"""A page of docs/ takes a few minutes to read: at most 1 500 words besides code, unless it is a reference."""

import re

import pytest

from tandem.infra.folders import ROOT
from tests.test_links import without_blocks

MOST = 1500
REFERENCE = {
    f"{name}.md"
    for name in (
        *("configuration", "dependencies", "doctor", "errors", "expressions", "formats"),
        *("glossary", "measures", "metrics", "reference", "windows"),
    )
}
PAGES = {path.relative_to(ROOT / "docs").as_posix(): path for path in sorted((ROOT / "docs").rglob("*.md"))}


def words(text: str) -> int:
    return len(re.findall(r"\S*\w\S*", without_blocks(text)))


@pytest.mark.parametrize("page", sorted(PAGES.keys() - REFERENCE))
def test_a_page_is_short(page: str) -> None:
    number = words(PAGES[page].read_text("utf-8"))
    assert number <= MOST, f"{page} has {number} words: split it"


def test_code_is_not_counted() -> None:
    assert words("# One | two\n```sh\nthree four\n```\n- `five` six\n") == 4


def test_exceptions_exist() -> None:
    assert PAGES.keys() >= REFERENCE
