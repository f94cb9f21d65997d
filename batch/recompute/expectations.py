"""Check what must hold for the views of a version before it is published (tandem.views.expectation)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from tandem.batch.fold.two_versions import ReleaseState, Side, Versions, over_keys
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.log.positions import LOG_START, Position, upper
from tandem.ledger.publish.audits import Audit, Audits
from tandem.ledger.publish.publications import Publication
from tandem.views.composite.rollup import root
from tandem.views.composite.together import parts
from tandem.views.condition_result import ConditionResult
from tandem.views.counted import counted
from tandem.views.errors import TandemError
from tandem.views.expectation import conditions
from tandem.views.kernel.kernel import arrange, present_arranged
from tandem.views.project import project
from tandem.views.source.united_source import sources_of
from tandem.views.source.watermark import least
from tandem.views.verify.expectations import check_numbers, check_rows, plus
from tandem.views.view import View

_SHOWN: Final = 3
"""The most rows that an error names."""


class ExpectationUnmet(TandemError, code="expectation-unmet"):
    """Rows of a new version do not meet a condition of their view that stops a publication."""


@dataclass(frozen=True)
class _CheckedKeys:
    """Of some keys: the results of conditions over rows, and the number of rows on both sides."""

    conditions: tuple[ConditionResult, ...]
    rows: int
    before: int


def check(batch: BatchRun, old: ReleaseState, new: ReleaseState, views: Iterable[str], *, version: int) -> list[Audit]:
    """Check the conditions of views, by name, in the state `new` of a release, and record the results as audits.

    `old` is the published state. The views are those whose states have changed, parts of a view
    over several sources among them; a rollup is checked with its root. Raises TaskFailed, Unreadable.
    """
    release, state = new
    definitions, changed = project.load_files(release.files), set(views)
    chosen = {
        name: view
        for name, view in definitions.every_view.items()
        if view.expect and (name in changed or any(part.name in changed for part in parts(root(view))))
    }
    if not chosen:
        return []
    sides: dict[Side, ReleaseState] = {"old": old, "new": new}
    marks = {(side, name): _watermark(of, view) for side, (_, of) in sides.items() for name, view in chosen.items()}
    batch.say(f"checking what must hold for {', '.join(chosen)}")
    checks = over_keys(batch, sides, tuple(chosen), partial(_check, marks))
    audits = []
    for name, view in chosen.items():
        some = [outcome for of, outcome in checks if of == name]
        before = sum(outcome.before for outcome in some) if _has_batch_version(old, name) else None
        results = {outcome.condition: outcome for outcome in plus(outcome for each in some for outcome in each.conditions)}
        results |= {outcome.condition: outcome for outcome in check_numbers(view, sum(outcome.rows for outcome in some), before)}
        ordered = [results.get(each.text, ConditionResult(each.text, each.severity)) for each in conditions(view)]
        like = Audit(
            batch.now(), version, 0 if old is None else old[1].number, release.number, name, "", LOG_START, _cut(state, view)
        )
        audits += [replace(like, expectation=outcome) for outcome in ordered]
    Audits(batch.tables).record(audits)
    return audits


def refuse_unmet(audits: Sequence[Audit], otherwise: str) -> None:
    """Raise ExpectationUnmet if rows do not meet a condition with "stop"; its sentence ends with `otherwise`."""
    bad = [(each.view, each.expectation) for each in audits if each.expectation and each.expectation.stops]
    if not bad:
        return
    view, first = bad[0]
    worst = "; ".join(map(_text, first.worst[:_SHOWN]))
    others = f"; {counted(len(bad), 'condition')} that stop a publication are not met" if len(bad) > 1 else ""
    raise ExpectationUnmet(f"view {view!r}: {first.sentence}: {worst}{others}; {otherwise}; `tandem audit {view}` lists them")


def _check(marks: Mapping[tuple[Side, str], int | None], name: str, versions: Versions) -> _CheckedKeys:
    answers = {
        side: (view, present_arranged(view, arrange(view, states), marks[side, name]))
        for side, (view, states) in versions.items()
    }
    (view, rows), before = answers["new"], answers.get("old")
    return _CheckedKeys(tuple(check_rows(view, rows, before)), rows.num_rows, 0 if before is None else before[1].num_rows)


def _has_batch_version(old: ReleaseState, name: str) -> bool:
    """Whether a batch version of the view is published."""
    release, state = old
    view = project.load_files(release.files).every_view.get(name)
    return view is not None and all(part.name in state.views and state.views[part.name].parts for part in parts(root(view)))


def _watermark(state: Publication, view: View) -> int | None:
    return least([state.watermarks.get(source.name) for source in sources_of(view.source)])


def _cut(state: Publication, view: View) -> Position:
    return upper(*(state.cut(source.name) for source in sources_of(view.source)))


def _text(worst: Mapping[str, Any]) -> str:
    """A row and what a condition reads of it, for a person."""
    place, values = (", ".join(f"{name}={value}" for name, value in worst[what].items()) for what in ("row", "values"))
    return f"{place}: {values}" if place else values
