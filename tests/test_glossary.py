"""docs/glossary.md has one heading for each word, with its meaning and the field's term; code uses each of the words."""

import re

from tandem.infra.folders import ROOT
from tests.test_links import anchors_of, tracked

TEXT = (ROOT / "docs" / "glossary.md").read_text("utf-8")
ENTRY = re.compile(r"^### (.+)\n\n(.+\.)\n\n\*Field:\* (.+)\.$", re.MULTILINE)
PACKAGES = ("views/", "ledger/", "infra/", "batch/", "speed/", "serving/", "cli/")


def words() -> list[str]:
    return re.findall(r"^### (.+)$", TEXT, flags=re.MULTILINE)


def test_each_word_has_a_meaning_and_the_term_of_the_field() -> None:
    assert [word for word, _, _ in ENTRY.findall(TEXT)] == words()
    assert len(words()) > 60


def test_each_word_has_one_heading() -> None:
    assert len(anchors_of(TEXT)) == len(re.findall(r"^#+ ", TEXT, flags=re.MULTILINE))


def test_terms_of_the_field_are_in_order() -> None:
    terms = re.findall(r"^\| ([^|]+) \| \[", TEXT, flags=re.MULTILINE)
    assert terms == sorted(terms)
    assert len(terms) > 20


def test_code_uses_each_word() -> None:
    """A word that no module says any more is one that no reader will look up."""
    files = [name for name in tracked() if name.endswith(".py") and name.startswith(PACKAGES)]
    code = "\n".join((ROOT / name).read_text("utf-8") for name in files).lower().replace("_", " ")
    unused = [word for word in words() if not re.search(rf"\b{re.escape(word.removesuffix('s'))}", code)]
    assert unused == []
