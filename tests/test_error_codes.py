"""Each kind of error has one stable code, and docs/errors.md lists them all."""

import ast
import pickle
import re
from collections import Counter
from functools import cache

from tandem.cli.command_line import INTERNAL_ERROR, USAGE_INVALID
from tandem.infra.folders import ROOT
from tandem.serving.http.protocol.problem import CODES
from tandem.serving.sql import messages
from tandem.views.errors import TandemError
from tests.test_links import tracked

PACKAGES = ("views/", "ledger/", "infra/", "batch/", "speed/", "serving/", "cli/")
LISTED = re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs" / "errors.md").read_text("utf-8"), flags=re.MULTILINE)


@cache
def trees() -> dict[str, ast.Module]:
    names = [name for name in tracked() if name.endswith(".py") and name.startswith(PACKAGES)]
    return {name: ast.parse((ROOT / name).read_text("utf-8")) for name in names}


def given(node: ast.ClassDef | ast.Call) -> list[str]:
    """The code that a class or a call gives as a word."""
    words = (each.value for each in node.keywords if each.arg == "code")
    return [word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)]


@cache
def of_classes() -> dict[str, list[str]]:
    """The codes of each class that is a TandemError, by the names of its bases."""
    classes = [(name, node) for name, tree in trees().items() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    known, found = {TandemError.__name__}, dict[str, list[str]]()
    while True:
        more = {
            f"{name}: {node.name}": node
            for name, node in classes
            if known & {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        }
        if not more.keys() - found:
            return found
        found = {place: given(node) for place, node in more.items()}
        known |= {node.name for node in more.values()}


REPORTED = "cli/command/call.py: AlreadyLogged"
"""It has the code of the error that it reports."""


def test_each_class_of_errors_has_a_code_of_its_own() -> None:
    found = of_classes()
    assert [place for place, codes in found.items() if len(codes) != 1 and place != REPORTED] == []
    assert [code for code, times in Counter(code for codes in found.values() for code in codes).items() if times > 1] == []
    assert len(found) > 60  # else the classes are not found any more


def test_the_page_lists_each_code_once() -> None:
    raised = [
        code
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id[0].isupper()
        for code in given(node)
    ]
    classes = [code for codes in of_classes().values() for code in codes]
    others = [TandemError.code, USAGE_INVALID, INTERNAL_ERROR, *CODES.values(), *messages.CODES.values()]
    assert sorted(LISTED) == sorted({*raised, *classes, *others})


def test_codes_are_lower_case_words_with_hyphens() -> None:
    assert [code for code in LISTED if not re.fullmatch(r"[a-z]+(-[a-z]+)*", code)] == []


def test_errors_keep_their_code_over_a_pickle() -> None:
    """Spark's tasks raise in another process."""
    error = pickle.loads(pickle.dumps(TandemError("no view", code="view-unknown")))
    assert (str(error), error.code) == ("no view", "view-unknown")
