"""The result of a task of `rehearse` at a checkpoint: how both sides' rows differ, and the rows that alerts look at."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tandem.batch.fold.two_versions import Side
from tandem.batch.rehearse.fold_checkpoints import AnsweredCheckpoint, AnsweredSide
from tandem.serving.sinks.alerts.definition import BoundAlert, bind_alert
from tandem.serving.sinks.alerts.episodes import AlertRow, Place
from tandem.serving.sinks.alerts.follow import MOST, TooManyRows
from tandem.views.kernel import kernel
from tandem.views.kernel.kernel import Partial
from tandem.views.project.project import Project
from tandem.views.verify.compare import answers, pairs
from tandem.views.verify.release_diff import Diff, diff_of_answers
from tandem.views.verify.row_diff import RowDifference, differing_rows
from tandem.views.windows.placement import WINDOW_STATE


@dataclass(frozen=True)
class AlertChanges:
    """The changes of an alert's rows since the checkpoint before.

    Args:
        rows: rows that changed, of those that may meet or clear the condition.
        gone: places whose row no longer exists.
    """

    rows: tuple[AlertRow, ...]
    gone: tuple[Place, ...]


@dataclass(frozen=True)
class RehearsedRows:
    """Some keys of a view at a checkpoint.

    Args:
        diff: how the rows of both sides differ.
        worst: the rows that differ most, the worst first.
        alerts: by side and alert.
    """

    checkpoint: int
    diff: Diff
    worst: tuple[RowDifference, ...] = ()
    alerts: Mapping[tuple[Side, str], AlertChanges] = field(default_factory=dict, hash=False)


@dataclass
class _FollowedAlert:
    """An alert, its view's answer at the checkpoint before, and the places where its condition has been met."""

    bound: BoundAlert
    answer: pa.Table | None = None
    met: set[Place] = field(default_factory=set)

    def step(self, side: AnsweredSide) -> AlertChanges:
        """The changes up to a checkpoint, as a follower of the view gets them: a new window state alone does not count."""
        before, self.answer = self.answer, kernel.present(side.view, Partial(side.states), side.watermark)
        changed, gone = (self.answer, self.answer.slice(0, 0)) if before is None else self._differences(before, self.answer)
        rows = self.bound.rows(changed, self.met)
        self.met |= {row.place for row in rows if row.meets}
        refuse_wide(self.bound, len(rows))
        return AlertChanges(tuple(rows), tuple(place for place in self.bound.places(gone) if place in self.met))

    def _differences(self, before: pa.Table, after: pa.Table) -> tuple[pa.Table, pa.Table]:
        both = pairs(self.bound.columns, before, after)
        was, stays = both.there
        other = pc.invert(was)
        for name in after.column_names:
            if name not in (*self.bound.columns, WINDOW_STATE.name):
                other = pc.or_(other, both.unequal(name))
        return both.sides[1].filter(pc.and_(stays, other)), both.sides[0].filter(pc.invert(stays))


def compare_rows(
    most: int, name: str, projects: Mapping[Side, Project], checkpoints: Iterator[AnsweredCheckpoint]
) -> Iterator[RehearsedRows]:
    """The comparison of a view's rows at each checkpoint, with the `most` worst of those that differ. Raises TooManyRows."""
    alerts = {
        (side, alert.name): _FollowedAlert(bind_alert(alert, project.every_view[name]))
        for side, project in projects.items()
        for alert in project.alerts.values()
        if alert.view.name == name
    }
    for checkpoint in checkpoints:
        changes = {place: alert.step(checkpoint.sides[place[0]]) for place, alert in alerts.items()}
        yield RehearsedRows(checkpoint.number, *_comparison(checkpoint, most), changes)


def refuse_wide(alert: BoundAlert, number: int) -> None:
    """Raise TooManyRows if this many rows meet the condition of an alert at once, as the process that runs alerts does."""
    if number > MOST:
        of = alert.alert
        raise TooManyRows(f"alert {of.name!r}: {number:,} rows meet {of.when!r}, more than {MOST:,}; narrow the condition")


def _comparison(checkpoint: AnsweredCheckpoint, most: int) -> tuple[Diff, tuple[RowDifference, ...]]:
    sides = checkpoint.sides
    if len(sides) < 2:
        ((side, there),) = sides.items()
        rows = kernel.arrange(there.view, there.states).num_rows
        return Diff(only_old=rows if side == "old" else 0, only_new=rows if side == "new" else 0), ()
    old, new = sides["old"].view, sides["new"].view
    ours, theirs = (answers(side.view, side.states) for side in (sides["old"], sides["new"]))
    diff = diff_of_answers(old, new, ours, theirs)
    worst = differing_rows(old, new, ours, theirs)[:most] if diff.changed or diff.only_old or diff.only_new else []
    return diff, tuple(worst)
