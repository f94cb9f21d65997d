"""The site of docs/ builds from its lock, without a dead link, and loads nothing from another host."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tandem.cli.dev.site.http_page import http_page
from tandem.cli.dev.site.pages import HERE, OUTSIDE, glossary, relink, with_terms
from tandem.infra import folders
from tandem.infra.folders import ROOT
from tandem.infra.locks.environment import Environment

BUILDER = Environment("the site builder", folders.cache(os.environ) / "docs", ROOT / "infra" / "locks" / "docs.lock")
PAGES = {
    "docs/README.md": "README.md",
    "docs/sql.md": "sql.md",
    "docs/design/cut.md": "design/cut.md",
    "ARCHITECTURE.md": "architecture.md",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `tandem docs` builds it."""
    out = tmp_path_factory.mktemp("site") / "docs"
    words = [sys.executable, "-m", "tandem.cli", "docs", "--out", str(out), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["site"] == str(out / "index.html")
    return out


class Loaded(HTMLParser):
    """What a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        self.addresses += [of.get("src") or "", *([of.get("href") or ""] if tag in ("link", "use") else [])]


def test_every_page_is_in_the_menu() -> None:
    menu = re.findall(r"([\w./-]+\.md)$", (HERE / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    docs = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(menu) == sorted({*docs, *OUTSIDE.values(), "http-api.md"})


@pytest.mark.slow
def test_the_site_has_every_page_and_loads_no_other_host(site: Path) -> None:
    docs = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    names = ["http-api.md", *OUTSIDE.values(), *docs]
    expected = {name.replace("README.md", "index.md").replace(".md", ".html") for name in names}
    pages = {path.relative_to(site).as_posix(): path for path in site.rglob("*.html")}
    assert expected <= set(pages)
    for name, path in pages.items():
        loaded = Loaded()
        loaded.feed(path.read_text("utf-8"))
        assert [address for address in loaded.addresses if "//" in address] == [], name
    styles = "".join(path.read_text("utf-8") for pattern in ("*.css", "*.svg") for path in site.rglob(pattern))
    assert re.findall(r"(?:url\(['\"]?|@import\s+['\"])(?:https?:)?//[^)'\"]+", styles) == []
    assert "unpkg.com" not in (site / "index.html").read_text("utf-8")


@pytest.mark.slow
def test_the_site_is_searched_without_a_server_and_explains_terms(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text("utf-8")
    assert {"windows.html#tumbling", "design/cut.html"} <= {
        page["location"] for page in json.loads(index.partition("= ")[2])["docs"]
    }
    concepts = (site / "concepts.html").read_text("utf-8")
    assert concepts.count('class="term" href="glossary.html#watermark"') == 1
    assert "GET /views/{view}/rows" in (site / "http-api.html").read_text("utf-8")


@pytest.mark.slow
def test_dead_links_end_the_build(site: Path, tmp_path: Path) -> None:
    assert site.exists()  # the builder is installed
    configuration = (HERE / "mkdocs.yml").read_text("utf-8").partition("nav:")[0]
    (tmp_path / "mkdocs.yml").write_text(configuration, "utf-8")
    (tmp_path / "docs").mkdir()
    dead = ("none.md", "#none", "/absolute.md")
    for targets, code in ((["#here"], 0), (dead, 1)):
        links = " ".join(f"[a link]({target})" for target in targets)
        (tmp_path / "docs" / "README.md").write_text(f"# Here\n\n{links}\n", "utf-8")
        words = [str(BUILDER.command("python")), "-I", "-m", "mkdocs", "build", "--strict"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == code, done.stderr
    assert [target for target in dead if f"'{target}'" not in done.stderr] == []


def test_a_folder_of_other_files_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    words = [sys.executable, "-m", "tandem.cli", "docs", "--out", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, (tmp_path / "mine").read_text()) == (1, "mine")
    assert "has files but no earlier site; name an empty folder" in done.stderr


@pytest.mark.parametrize(
    ("page", "link", "moved"),
    [
        ("docs/sql.md", "[b](design/cut.md#x)", "[b](design/cut.md#x)"),
        ("docs/design/cut.md", "[a](../sql.md)", "[a](../sql.md)"),
        ("docs/design/cut.md", "[whole](../../ARCHITECTURE.md#y)", "[whole](../architecture.md#y)"),
        ("ARCHITECTURE.md", "[b](docs/design/cut.md)", "[b](design/cut.md)"),
        ("ARCHITECTURE.md", "![drawn](docs/images/c.svg)", "![drawn](images/c.svg)"),
        ("docs/sql.md", "[Tandem](../README.md)", "[Tandem](README.md)"),
        ("docs/sql.md", "[code](../views/view.py)", "code"),
        ("docs/sql.md", "[gone](gone.md)", "[gone](gone.md)"),
        ("docs/sql.md", "[design/cut.md](design/cut.md)", "[The title](design/cut.md)"),
        ("docs/sql.md", "`[a](b)` [o](https://o.org) [h](#h)", "`[a](b)` [o](https://o.org) [h](#h)"),
    ],
)
def test_links_lead_from_the_new_place(page: str, link: str, moved: str) -> None:
    assert relink(link, page, PAGES, lambda path: path == "views/view.py", {"design/cut.md": "The title"}) == moved


def test_a_term_leads_to_the_glossary_at_its_first_use() -> None:
    terms = glossary("### hot tail\n\nThe *newest* events: in `memory`. More.\n\n### cut\n\nA position.\n\n### event\n\nOne.\n")
    assert terms == {"hot tail": "The *newest* events:", "cut": "A position."}
    text = "# The cut\n\n| cut |\n`cut` Cuts of a hot tail, then a\ncut. event\n```\ncut\n```\n"
    assert with_terms(text, terms, "g.md") == (
        '# The cut\n\n| cut |\n`cut` [Cuts](g.md#cut "A position."){.term} of a '
        '[hot tail](g.md#hot-tail "The newest events:"){.term}, then a\ncut. event\n```\ncut\n```\n'
    )  # fmt: skip


def test_a_page_of_routes_has_parameters_and_answers() -> None:
    parameter = {"name": "n", "in": "query", "required": True, "schema": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}
    route = {"tags": ["rows"], "description": "Rows.", "parameters": [parameter | {"description": "A | B."}],
             "responses": {"200": {"description": "Fine."}}}  # fmt: skip
    page = http_page({"paths": {"/rows": {"get": route}}})
    assert "## Rows\n\n### `GET /rows`\n\nRows.\n" in page
    assert "| `n` | query | integer or null, required | A \\| B |\n\nAnswers: 200 (Fine).\n" in page
