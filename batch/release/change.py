"""The differences between the live release and a new one, and the initial state of the new one. Pure functions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from tandem.batch.rebuild.inputs import Gained
from tandem.batch.recompute.plan import Step
from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish.batch_parts import BatchView
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release
from tandem.views.fingerprint.definition_diff import Fingerprints, ViewChanges, compare, continued
from tandem.views.project import project
from tandem.views.project.project import Project

Status = Literal["unchanged", "changed", "added", "removed"]


@dataclass(frozen=True)
class Change:
    """The change from release `before`, whose newest publication is `live`, to release `after`."""

    live: Publication
    before: Release
    after: Release

    @cached_property
    def old(self) -> Project:
        """The live definitions."""
        return project.load_files(self.before.files)

    @cached_property
    def new(self) -> Project:
        """The definitions of the new release."""
        return project.load_files(self.after.files)

    @property
    def views(self) -> tuple[ViewChanges, ...]:
        """How the definition of each changed view differs."""
        return compare(self.old, self.new, Fingerprints(self.before.sources, self.before.views)).views

    @property
    def status(self) -> dict[str, Status]:
        """The outcome of each view of both releases."""
        found: dict[str, Status] = {}
        for name in dict.fromkeys((*self.after.views, *self.before.views)):
            if name not in self.after.views:
                found[name] = "removed"
            elif name not in self.before.views:
                found[name] = "added"
            else:
                found[name] = "unchanged" if self.after.views[name] == self.before.views[name] else "changed"
        return found

    def other_decoder(self, source: str) -> bool:
        """Whether the new release decodes a source differently, or is the first to read it."""
        return self.after.sources[source] != self.before.sources.get(source)


def initial_state(change: Change, *, by: str, at: datetime) -> Publication:
    """The initial state of the new release: at the live cut, with the batch views that both releases share.

    A source whose records now decode into other events has no cut yet: its earlier counts are not valid any more.
    """
    live, after = change.live, change.after
    same = {name: name for name in after.sources if not change.other_decoder(name)}
    decoded_again = {name for name in after.sources if name not in same and live.cut(name).offsets}
    # With another `clock_skew` other events are ahead: the watermark is computed again.
    timed = {name: name for name in same if change.old.sources[name].clock_skew == change.new.sources[name].clock_skew}
    shared = continued({name: view.fingerprint for name, view in live.views.items()}, after.views)

    def of(mapping: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
        return {name: mapping[was] for name, was in names.items() if was in mapping}

    return Publication(
        number=0,
        parent=live.number,
        at=at,
        by=by,
        kind="apply",
        release=after.number,
        cuts={name: live.cut(name) if name in same else LOG_START for name in after.sources if name not in decoded_again},
        views={name: _batch_view(live, after, name, shared.get(name)) for name in after.views},
        counts=of(live.counts, same),
        rejected=of(live.rejected, shared),
        newest=of(live.newest, same),
        maxima=of(live.maxima, timed),
        watermarks=of(live.watermarks, timed),
        after_final=of(live.after_final, shared),
        gaps=live.gaps,
    )


def missing_steps(change: Change, base: Publication) -> list[Step]:
    """The steps that complete the state: for each source with a cut, the views without a batch view."""
    return list(_missing_steps(change, base))


def _missing_steps(change: Change, base: Publication) -> Iterator[Step]:
    for source in change.new.sources:
        cut = change.live.cut(source)
        of = [name for name, view in change.new.views.items() if view.source.name == source]
        views = [name for name in of if not base.views[name].parts]
        if cut.offsets and (views or source not in base.cuts):
            yield Step(source, "full", LOG_START, cut, dict.fromkeys(views, ()))


def only_new_measures(change: Change, steps: list[Step]) -> list[Step]:
    """The steps; views that only gained measures fold only these."""
    added = {one.name: one.added_measures for one in change.views if one.computed_from == "events" and one.added_measures}

    def gained(step: Step) -> dict[str, Gained]:
        return {
            name: Gained(added[name], change.live.views[name], change.live.rejected.get(name, {}))
            for name in step.views
            if name in added and change.live.views[name].parts
        }

    return [replace(step, gained=gained(step)) for step in steps]


def without_batch_view(steps: list[Step], base: Publication) -> list[Step]:
    """The steps, without the views that have a batch view in this state."""
    return [replace(step, views={name: () for name in step.views if not base.views[name].parts}) for step in steps]


def _batch_view(live: Publication, release: Release, name: str, was: str | None) -> BatchView:
    """The initial batch view of a view: that of the live view `was` that it continues, else an empty one."""
    fingerprint = release.views[name]
    if was is not None:
        there = live.views[was]
        return there if was == name else replace(there, at=there.at or f"{was}/{fingerprint}")
    taken = f"{name}/{fingerprint}" in {view.at for view in live.views.values()}
    return BatchView(fingerprint, at=f"{name}.{release.number}/{fingerprint}" if taken else "")
