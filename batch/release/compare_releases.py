"""Compare the answers of two releases below the same cut, view by view, over all keys."""

from collections.abc import Sequence
from functools import reduce

from tandem.batch.fold.two_versions import ReleaseState, Versions, over_keys
from tandem.batch.runtime.session import BatchRun
from tandem.views.verify.release_diff import Diff, add, diff


def diffs(batch: BatchRun, old: ReleaseState, new: ReleaseState, views: Sequence[str]) -> dict[str, Diff]:
    """The diffs of views that both releases have; both states have the same cut. Raises TaskFailed, Unreadable."""
    differences = over_keys(batch, {"old": old, "new": new}, views, _diff)
    return {view: reduce(add, (one for name, one in differences if name == view), Diff()) for view in views}


def _diff(_: str, versions: Versions) -> Diff:
    (old, before), (new, after) = versions["old"], versions["new"]
    return diff(old, new, before, after)
