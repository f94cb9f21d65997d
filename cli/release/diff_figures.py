"""How a release's rows differ from the live ones, in the figures and words that `apply`, `promote` and `diff` share."""

from collections.abc import Iterator, Mapping
from typing import Any

from tandem.ledger.publish.diffs import ReleaseDiff
from tandem.views.counted import counted


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
