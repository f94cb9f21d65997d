"""The fingerprints of the examples, and hashes of code in normal form, in golden.json; `python -m tests.views.golden` writes it.

A change there changes the fingerprints of every user's views, so it needs a line in CHANGELOG.md.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from tandem.infra.folders import ROOT
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint, fingerprint
from tandem.views.project.project import load
from tests.views.pythons import forms

GOLDEN = Path(__file__).with_name("golden.json")
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/tandem.toml"))


def snippets(file: str) -> list[str]:
    """The pieces of code in a file beside this one."""
    return Path(__file__).with_name(file).read_text("utf-8").split("====\n")


def sources() -> dict[str, str]:
    """The code of all examples, and the code that is hard to write alike, by name."""
    files = {str(path.relative_to(ROOT)): path.read_text("utf-8") for folder in EXAMPLES for path in sorted(folder.glob("*.py"))}
    return files | {f"hostile syntax {number}": code for number, code in enumerate(snippets("hostile_syntax.txt"))}


def digests(python: str) -> dict[str, str]:
    """A hash of the normal form of each of the sources, as an interpreter writes it."""
    codes = sources()
    written = forms(python, list(codes.values()))
    return {name: hashlib.sha256(form.encode()).hexdigest()[:16] for name, form in zip(codes, written, strict=True)}


def fingerprints() -> dict[str, Any]:
    """The fingerprints of every example."""
    projects = {folder.name: load(folder) for folder in EXAMPLES}
    return {
        name: {
            "sources": {one.name: decoder_fingerprint(one) for one in project.sources.values()},
            "views": {one.name: fingerprint(one) for one in project.views.values()},
        }
        for name, project in projects.items()
    }


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({"fingerprints": fingerprints(), "forms": digests(sys.executable)}, indent=1) + "\n")
