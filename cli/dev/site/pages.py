"""Pages of the repository as pages of the documentation site, with links between them and terms of the glossary."""

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tandem.cli.dev.site.http_page import http_page

HERE: Final = Path(__file__).resolve().parent
OUTSIDE: Final[Mapping[str, str]] = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "bench/README.md": "bench.md",
    "examples/README.md": "examples.md",
}
"""Pages outside docs/, and their names on the site."""

_CODE: Final = re.compile(r"(^(```+).*?^\2[^\n]*$|(?<!`)(`+)(?!`).*?(?<!`)\3(?!`))", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_TERM: Final = re.compile(r"^### (.+)\n\n(.+\.)$", re.MULTILINE)
_EVERYDAY: Final = frozenset(
    ["answer", "data", "event", "key", "log", "measure", "place", "project", "record", "server", "source", "view", "window"]
)
"""Words of the glossary that every reader knows, or that every page is about."""


def write_pages(root: Path, to: Path) -> None:
    """Write the builder's configuration and every page of the site into an empty folder."""
    pages = {
        path.relative_to(root).as_posix(): path.relative_to(root / "docs").as_posix() for path in (root / "docs").rglob("*.md")
    }
    pages |= OUTSIDE
    titles = {target: (root / name).read_text("utf-8").partition("\n")[0].removeprefix("# ") for name, target in pages.items()}
    terms = glossary((root / "docs" / "glossary.md").read_text("utf-8"))
    for name, target in pages.items():
        text = relink((root / name).read_text("utf-8"), name, pages, lambda path: (root / path).exists(), titles)
        if target not in ("glossary.md", "changelog.md", "reference.md", "README.md"):
            text = with_terms(text, terms, os.path.relpath("glossary.md", Path(target).parent))
        # The builder takes the name of a block's file as a title.
        text = re.sub(r"^(```+\w+) (\S+)$", r'\1 title="\2"', text, flags=re.MULTILINE)
        page = to / "docs" / target
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, "utf-8")
    document = json.loads((root / "docs" / "openapi.json").read_text("utf-8"))
    (to / "docs" / "http-api.md").write_text(http_page(document), "utf-8")
    shutil.copy(root / "docs" / "openapi.json", to / "docs")
    shutil.copytree(root / "docs" / "images", to / "docs" / "images", ignore=shutil.ignore_patterns("demo.svg"))
    shutil.copytree(HERE / "assets", to / "docs" / "assets")
    shutil.copy(HERE / "mkdocs.yml", to)


def relink(
    text: str, page: str, pages: Mapping[str, str], exists: Callable[[str], bool], titles: Mapping[str, str] | None = None
) -> str:
    """A page's text with links that lead from its place on the site; a link to a file outside the site becomes its text.

    `pages` has the site's name of each page; a link to the README of the repository leads to the site's first page. A link whose
    text is a file's name gets the title of that page.
    """

    def link(match: re.Match[str]) -> str:
        picture, label, target = match.groups()
        path, _, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return match[0]
        file = os.path.normpath(Path(page).parent / path)
        name = "README.md" if file == "README.md" else pages.get(file) or pages.get(f"{file}/README.md")
        if name is None and file.startswith("docs/"):
            name = file.removeprefix("docs/")
        if name is None and exists(file):
            return label
        if name is None:
            return match[0]
        if label.endswith(".md"):
            label = (titles or {}).get(name, label)
        moved = os.path.relpath(name, Path(pages[page]).parent)
        return f"{picture}[{label}]({moved}{f'#{anchor}' if anchor else ''})"

    return outside_code(text, lambda part: _LINK.sub(link, part))


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text with a change of each part that is not code."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match[0])
        return f"\0{len(kept) - 1}\0"

    return re.sub(r"\0(\d+)\0", lambda match: kept[int(match[1])], change(_CODE.sub(keep, text)))


def glossary(text: str) -> dict[str, str]:
    """The first sentence of each word of the glossary."""
    sentences = {word: re.split(r"(?<=[.:;]) ", meaning, maxsplit=1)[0] for word, meaning in _TERM.findall(text)}
    return {word: sentence for word, sentence in sentences.items() if word.lower() not in _EVERYDAY}


def with_terms(text: str, terms: Mapping[str, str], page: str) -> str:
    """The text whose first use of each term leads to the glossary and shows its meaning, outside headings, tables and links."""

    def change(part: str) -> str:
        lines = part.split("\n")
        for word, meaning in sorted(terms.items(), key=lambda item: -len(item[0])):
            pattern = re.compile(rf"(?<![\w\[/.-])({re.escape(word)}s?)(?![\w\]/(-])", re.IGNORECASE)
            title = re.sub(r"[`*_\[\]\0]|\(\S+\)", "", meaning).replace('"', "'")
            anchor = re.sub(r"[^\w\- ]", "", word.lower()).replace(" ", "-")
            for number, line in enumerate(lines):
                if line.lstrip().startswith(("#", "|", "<", "![", "    ")) or "](" in line:
                    continue
                if (match := pattern.search(line)) is not None:
                    link = f'[{match[1]}]({page}#{anchor} "{title}"){{.term}}'
                    # What a term was replaced by is left alone: no term inside another's link.
                    lines[number] = f"{line[: match.start()]}\x01{len(links)}\x01{line[match.end() :]}"
                    links.append(link)
                    break
        return "\n".join(lines)

    links: list[str] = []
    changed = outside_code(text, change)
    return re.sub("\x01(\\d+)\x01", lambda match: links[int(match[1])], changed)
