"""The Pythons of this machine, found as set-up finds them, and the normal form of code as each of them writes it."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tandem.infra.folders import ROOT

VERSIONS = ("3.11", "3.12", "3.13")

_FORMS = """
import ast, hashlib, importlib.util, json, sys, warnings

def module(path):
    spec = importlib.util.spec_from_file_location("apart", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found

def form(code):
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        return f"SyntaxError: {error.msg}"
    return "\\n".join(text(normal_form(statement)) for statement in tree.body)

warnings.simplefilter("ignore")
text, normal_form = module(sys.argv[1]).text, module(sys.argv[2]).normal_form
json.dump([form(code) for code in json.load(sys.stdin)], sys.stdout)
"""


@cache
def interpreter(version: str) -> str | None:
    """A Python of this version that runs: in the path, or among pyenv's; None if there is none."""
    found = [shutil.which(f"python{version}"), *sorted(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))]
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    for path in found:
        if path is not None:
            run = subprocess.run([path, "-I", "-c", asked], capture_output=True, text=True, check=False)
            if run.stdout.strip() == version:
                return path
    return None


def forms(python: str, codes: Sequence[str]) -> list[str]:
    """The normal form of each module's statements as that interpreter writes it, which has none of our packages."""
    files = [str(ROOT / "views" / "fingerprint" / name) for name in ("tree_text.py", "normal_form.py")]
    run = subprocess.run(
        [python, "-I", "-c", _FORMS, *files], input=json.dumps(codes), capture_output=True, text=True, check=False
    )
    assert not run.returncode, run.stderr
    found: list[str] = json.loads(run.stdout)
    return found
