"""A link of a document leads somewhere: its file is in the repository, its anchor is a heading of that file.

So does a document that code names as a path, such as `docs/recover.md#a-topic-is-gone` in an error message or a docstring.
"""

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT

OTHERS = "serving/page/vendor/"
"""Files that others wrote."""

LINK = re.compile(r"\]\(([^()\s]+)\)|^\[[^\]]+\]: (\S+)", re.MULTILINE)
NAMED = re.compile(r"(?<![\w./-])((?:docs/[\w/-]+|[A-Z]{4,})\.md(?:#[\w-]+)?)(?!\w)")
CODE = (".py", ".js", ".html", ".json", ".yml", ".toml", ".xml", ".sh", ".in", "")


def tracked() -> list[str]:
    """The files of the repository, without those of others."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("this is not a Git repository")
    return [name for name in listed.stdout.splitlines() if not name.startswith(OTHERS) and (ROOT / name).is_file()]


def without_blocks(text: str) -> str:
    """The text without blocks of code."""
    return re.sub(r"^(```+).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)


def prose(text: str) -> str:
    """The text without code, be it a block or a part of a line."""
    return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", without_blocks(text))


def anchors_of(text: str) -> set[str]:
    """The anchors of a document as GitHub makes them: a heading in lower case without punctuation, numbered if it is repeated."""
    found: dict[str, int] = {}
    anchors = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for heading in re.findall(r"^#{1,6} +(.*?)\s*$", without_blocks(text), flags=re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        anchors.add(f"{anchor}-{found[anchor]}" if anchor in found else anchor)
        found[anchor] = found.get(anchor, 0) + 1
    return anchors


@cache
def anchors(path: Path) -> set[str]:
    """The anchors of a file."""
    return anchors_of(path.read_text("utf-8"))


def links(text: str) -> Iterator[str]:
    """The targets of a document's links, without those on other hosts."""
    targets = (first or second for first, second in LINK.findall(prose(text)))
    return (target for target in targets if not re.match(r"[a-z]+:", target))


def is_dead(target: str, page: Path) -> bool:
    """Whether a link on a page names no file, or no heading of it."""
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists() or not file.is_relative_to(ROOT):
        return True
    return bool(anchor) and file.suffix == ".md" and anchor not in anchors(file)


def test_each_link_of_a_document_has_a_target() -> None:
    pages = [name for name in tracked() if name.endswith(".md")]
    found = [(name, target) for name in pages for target in links((ROOT / name).read_text("utf-8"))]
    assert [link for link in found if is_dead(link[1], ROOT / link[0])] == []
    assert len(found) > 100  # else the pattern does not read the documents any more


def test_each_page_of_docs_is_in_a_menu_of_the_site_and_on_the_first_page() -> None:
    pages = [name.removeprefix("docs/") for name in tracked() if name.startswith("docs/") and name.endswith(".md")]
    menus = (ROOT / "cli" / "dev" / "site" / "mkdocs.yml").read_text("utf-8").partition("nav:")[2]
    assert sorted(set(pages) - set(re.findall(r"[\w/-]+\.md", menus))) == []
    first = set(links((ROOT / "docs" / "README.md").read_text("utf-8")))
    assert [page for page in pages if page not in first and "/" not in page and page != "README.md"] == []


def test_each_document_that_code_names_exists() -> None:
    files = [name for name in tracked() if Path(name).suffix in CODE and not name.startswith(("tests/test_links", "examples/"))]
    found = [(name, target) for name in files for target in NAMED.findall((ROOT / name).read_text("utf-8", "replace"))]
    assert [named for named in found if is_dead(named[1], ROOT / "README.md")] == []
    assert len(found) > 50


@pytest.mark.parametrize("target", ["docs/windows.md#none", "docs/none.md", "#none", "../../etc/hostname"])
def test_a_dead_link_is_found(target: str) -> None:
    assert is_dead(target, ROOT / "README.md")


@pytest.mark.parametrize("target", ["README.md", "docs", "docs/windows.md", "docs/windows.md#tumbling"])
def test_a_live_link_passes(target: str) -> None:
    assert not is_dead(target, ROOT / "README.md")


def test_anchors_are_those_of_github() -> None:
    text = "# A `b/c.py`: it's\n```\n# no\n```\n## [A link](to.md) here\n### Twice\n### Twice\n## Two  spaces & more\n"
    assert anchors_of(text) == {"a-bcpy-its", "a-link-here", "twice", "twice-1", "two--spaces--more"}


def test_code_of_a_document_has_no_links() -> None:
    assert list(links("`[a](b.md)` [c](d.md)\n```\n[e](f.md)\n```\n[g](https://x.org) ``[h](`i.md`)``\n[j]: k.md\n")) == [
        "d.md",
        "k.md",
    ]
