"""`tandem points --check LOG`: the answers that a server logged, each computed again."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tandem.batch.points.check_answers import AnswerDifference, CheckedAnswers, check_answers
from tandem.cli.command.batch_run import batch_run
from tandem.cli.command.call import Call, Output
from tandem.cli.command.text_tables import cell
from tandem.infra.logs import files
from tandem.ledger.logged_answers import LoggedAnswer, parse_answer
from tandem.views.counted import counted
from tandem.views.errors import TandemError

LISTED: Final = 20
"""The most differences that are listed."""


def run(call: Call, log: Path) -> Output:
    """Check the answers of a log and its earlier files. Raises TandemError for a file that is not such a log."""
    answers = [*load_answers(log)]
    with batch_run(call, "points") as batch:
        return output(check_answers(batch, answers))


def load_answers(log: Path) -> Iterator[LoggedAnswer]:
    """The answers of a log, the oldest first. An unfinished last line, as a killed server leaves it, is skipped."""
    for path in (*reversed(files.earlier(log)), log):
        try:
            lines = path.read_bytes().split(b"\n")
        except OSError as error:
            raise TandemError(f"{path} cannot be read: {error.strerror}", code="file-unusable") from error
        yield from (parse_answer(line, f"{path}:{number}") for number, line in enumerate(lines[:-1], 1) if line)


def output(checked: CheckedAnswers) -> Output:
    """The result of the check, with exit code 1 if answers differ."""
    document = {
        "publication": checked.publication,
        "checked": dict(checked.checked),
        "differ": len(checked.differences),
        "differences": [_document(each) for each in islice(checked.differences, LISTED)],
        "unchecked": dict(checked.unchecked),
        "inexact": {view: list(names) for view, names in checked.inexact.items()},
    }
    return Output(document, "\n".join(_lines(document)), 1 if checked.differences else 0)


def _document(difference: AnswerDifference) -> dict[str, Any]:
    answer, row = difference.answer, difference.row
    return {
        "view": answer.view,
        "at": answer.at,
        "key": answer.key,
        "window": answer.window,
        "measures": {
            name: {
                "answered": None if answer.row is None else answer.row.get(name),
                "computed": None if row is None else row.get(name),
            }
            for name in difference.measures
        },
        "only": None if answer.row is not None and row is not None else "computed" if answer.row is None else "answered",
    }


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    number = sum(document["checked"].values())
    alike = "all are equal" if not document["differ"] else f"{document['differ']} differ"
    yield f"{counted(number, 'answer')} computed again from the log below publication {document['publication']}: {alike}"
    yield from (f"{view}: {counted(of, 'answer')}" for view, of in document["checked"].items())
    for each in document["differences"]:
        place = ", ".join(f"{name}={cell(value)}" for name, value in {**each["key"], "window": each["window"]}.items())
        values = ", ".join(
            f"{name} {cell(of['answered'])}, computed {cell(of['computed'])}" for name, of in each["measures"].items()
        )
        yield f"{each['view']} ({place}) at {each['at']}: answered {values}"
    if document["differ"] > len(document["differences"]):
        yield f"the first {len(document['differences'])} of {document['differ']}"
    yield from (f"not checked: {counted(of, 'answer')} {reason}" for reason, of in document["unchecked"].items())
    for view, names in document["inexact"].items():
        yield f"{view}: {', '.join(names)} are not exact, and are compared within their tolerance; estimates are not compared"
