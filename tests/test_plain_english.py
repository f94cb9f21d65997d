"""Sentences that a person reads are plain: none of the worst patterns, no sentence of more than forty words.

Held are the strings, docstrings and comments of the packages, set-up, the page, the dashboards, and all documents. A clause
that ends with a semicolon or a colon counts as a sentence.
"""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT

FOLDERS = ("batch", "bench", "cli", "dags", "examples", "infra", "ledger", "serving", "speed", "tandem", "views")
DOCUMENTS = ("*.md", "docs")
SUFFIXES = (".py", ".js", ".html", ".json", ".yml", ".yaml", ".toml", ".md", "")
MOST_WORDS = 40

PATTERNS = {
    # "there is no table" is fine, "that is no table" is not.
    "write 'is not a ...' or 'invalid ...'": (
        r"(?<!there )\b(is|are|was|were) no (?!longer|more\b|less|other|such|earlier|later)[a-z]"
    ),
    "name the number or the noun": r"\bso many\b",
    "name the noun": r"\bone that\b|\bsome such\b|\bone such as\b",
    "write 'again' or 're...'": r"\banew\b",
    "write 'fix'": r"\bmends?\b",
    "name the thing": r"\bwhat there is\b|\bmade-up\b",
    "write 'retire', 'release' or 'delete'": r"\blets? go of\b|\blet go\b",
    "write 'differs from' or 'changed'": r"\banother one than\b|\bother than before\b",
    "name who needs what": r"\bnobody may\b",
    "write 'cannot be combined'": r"\bgoes without\b",
    "write 'is random' or 'depends on'": r"\bthrows? dice\b|\bhangs? on the\b",
    "write 'the watermark' or 'the position'": r"\bhow far\b[^.;:]{0,30}\bhas come\b",
    "write 'does not have'": r"\bhas not[;,]",
    "write 'absent' or 'does not exist'": r"\bone that there is not\b|\bas they are now\b",
    "write 'the outcome of'": r"\bwhat became of\b",
    "write 'reports', 'shows' or 'distinguishes'": r"\b(is|are|be|was|were) told\b",
    "write 'maintenance'": r"\bupkeep\b",
    "list them, or leave it out": r"\band (its|their) kin\b",
    "write 'counts as' or 'mistaken for'": r"\btaken for\b",
    "write 'now', 'already' or 'since'": r"\bby now\b",
    "write 'poll'": r"\b(asks?|asked|asking) the (broker|log|tables?)\b|\blooks? for new\b",
    "write 'in flight' or 'running'": r"\bunder way\b",
    "write 'runs' or 'makes progress'": r"\bcomes? round\b|\bcame round\b",
    "write 'retry' or 'retriable'": r"\bheals?\b|\basked again\b",
}

ANY = re.compile("|".join(PATTERNS.values()), re.IGNORECASE)

# By path the sentences that stay: each has a word of the patterns in another meaning, or is a list and not a sentence.
EXCEPTIONS: dict[str, tuple[str, ...]] = {
    "CHANGELOG.md": ("| `mend` of `doctor --json`",),
}


def texts(path: str, content: str) -> Iterator[tuple[int, str]]:
    """Line and text of what a person reads of a file: of Python its strings and comments, of others all."""
    if not path.endswith(".py"):
        yield 1, content
        return
    comment: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type == tokenize.COMMENT:
            own = not token.line[: token.start[1]].strip()
            if comment and (token.start[0] != last + 1 or not own):
                yield first, "\n".join(comment)
                comment = []
            first, last = (first if comment else token.start[0]), token.start[0]
            comment.append(token.string.removeprefix("#"))
    yield first, "\n".join(comment)
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def sentences(text: str) -> Iterator[str]:
    """The sentences of paragraphs and items; rows of tables, blocks of code and aligned columns are none."""
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.DOTALL)
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[*|-]|\d+\.) )|\n(?=\s*\w+: )", text):
        if not re.match(r"\s*\||    ", part) and not re.search(r"\S {3,}\S|[├└]", part):
            yield from re.split(r"(?<=[.!?:;])[\"')]*\s+", " ".join(part.split()))


def stumbles(path: str, content: str) -> list[str]:
    """What is wrong with a file's language: place, words, and what to write."""
    found = []
    for line, text in texts(path, content):
        flat = re.sub(r"\s+", " ", text)
        for advice, pattern in PATTERNS.items() if ANY.search(flat) else ():
            for match in re.finditer(pattern, flat, re.IGNORECASE):
                around = flat[max(0, match.start() - 40) : match.end() + 40]
                found.append(f"{path}:{line}: {match[0]!r} in {around!r}: {advice}")
        if path.endswith((".py", ".md")):
            long = (one for one in sentences(text) if len(one.split()) > MOST_WORDS)
            found += [f"{path}:{line}: {len(one.split())} words, split it: {one[:80]}" for one in long]
    return [one for one in found if not any(allowed in one for allowed in EXCEPTIONS.get(path, ()))]


def files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", *FOLDERS, *DOCUMENTS], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [
        path for path in listed.split() if Path(path).suffix in SUFFIXES and "vendor" not in path and "/tests/" not in f"/{path}"
    ]


def test_texts_are_plain_english() -> None:
    found = [one for path in files() for one in stumbles(path, (ROOT / path).read_text("utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("a.py", 'raise ValueError(f"{x!r} is no cursor")\n'),
        ("a.py", "# warns so many\n# hours before\nx = 1\n"),
        ("a.py", "# a view, or one\n# that is not there\n"),
        ("a.js", "// a record that is no event\n"),
        ("a.md", "Mend the definitions.\n"),
        ("a.md", "The label hangs on the partition.\n"),
        ("a.py", "# What became of records\nx = 1\n"),
        ("a.md", "A lost topic is told by name.\n"),
        ("a.py", "# the request is under way\nx = 1\n"),
        ("a.py", "# asked again while the error\n# lasts\nx = 1\n"),
        ("a.py", "# how far each source\n# has come\nx = 1\n"),
        ("a.py", 'raise ValueError(f"a field {x!r} that the event has not; fields: a")\n'),
        ("a.py", f'"""{"word " * 41}."""\n'),
        ("a.md", "word " * 41),
    ],
)
def test_a_hard_sentence_is_found(path: str, content: str) -> None:
    assert len(stumbles(path, content)) == 1


@pytest.mark.parametrize(
    "content", ["there is no table", "it is no longer live", f"{'word ' * 40}", f"{'word ' * 30}. {'word ' * 30}", "| a | " * 41]
)
def test_a_plain_sentence_passes(content: str) -> None:
    assert not stumbles("a.md", content)
