"""How a release's rows differ from the live ones, in the figures and words that several commands share."""

from collections.abc import Iterator, Mapping
from typing import Any

from tandem.cli.command.text_tables import cell
from tandem.ledger.publish.diffs import ReleaseDiff
from tandem.views.counted import counted
from tandem.views.verify.row_diff import RowDifference
from tandem.views.windows import WINDOW_COLUMNS


def figures(view: Mapping[str, Any], release: int) -> str:
    """The totals of a view, of a diff as release_diff.to_json writes it."""
    same = counted(view["matched"] - view["changed"], "row")
    totals = (
        f"{same} the same, {view['changed']} changed, {view['only_old']} only live, {view['only_new']} only release {release}"
    )
    return totals if view["comparable"] else f"other keys or windows: {totals}"


def lines_of(compared: ReleaseDiff | None) -> Iterator[str]:
    """A line for each view, as `apply` compared the answers below the cut; none if it has not."""
    for name, view in ({} if compared is None else compared.views).items():
        assert compared is not None
        yield f"  view {name}: {figures(view, compared.release) if view['status'] == 'changed' else view['status']}"


def difference_document(difference: RowDifference) -> dict[str, Any]:
    """A row that differs, as JSON."""
    return {
        "row": dict(difference.row),
        "only": {None: None, "old": "live", "new": "release"}[difference.only],
        "measures": {name: {"live": live, "release": other} for name, (live, other) in difference.measures.items()},
        "relative_error": difference.symmetric,
        "absolute_error": difference.absolute,
    }


def difference_cells(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same for a person: keys and window, and the values of both sides."""
    side = {None: "both", "live": "only live", "release": "only new"}[row["only"]]
    values = ", ".join(
        f"{name} {cell(both['live'])} -> {cell(both['release'])}" if row["only"] is None else f"{name} {cell(both[row['only']])}"
        for name, both in row["measures"].items()
    )
    place = {name: value for name, value in row["row"].items() if value is not None or name not in WINDOW_COLUMNS}
    return {**place, "row of": side, "its values": values}
