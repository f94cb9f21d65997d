"""Keep batch views although the source's event gained optional fields, if the views read none of them."""

from dataclasses import replace

from batch.release.change import Change
from batch.runtime.session import BatchRun
from ledger.delta.addresses import Tables
from ledger.log import archive
from ledger.log.positions import Position
from ledger.publish.publications import Publication


def keep_unread(batch: BatchRun, base: Publication, change: Change) -> Publication:
    """The initial state of a release, with the batch views of the live release that its views can continue.

    A view continues its batch view if it reads none of the fields that the source's event gained, and no archived record below
    the live cut is rejected for these fields (views.fingerprint.unread_fields). The archive must be decoded for both releases.

    The source's counts are computed again nevertheless: conflicts compare duplicates by content, and may be more.
    """
    live, before, release = change.live, change.before, change.after
    kept: dict[str, str] = {}
    for view in change.views:
        there = live.views.get(view.name)
        if not view.unread_fields or there is None or not there.parts or there.fingerprint != before.views[view.name]:
            continue
        source, fields = change.new.views[view.name].source.name, ", ".join(view.unread_fields)
        if same_records(batch.tables, source, before.sources[source], release.sources[source], live.cut(source)):
            kept[view.name] = there.at or f"{view.name}/{there.fingerprint}"
            batch.say(
                f"{view.name}: keeps its batch view: it does not read {fields}, and no archived record is rejected for them"
            )
        else:
            batch.say(f"{view.name}: is recomputed: {fields} rejects archived records that were events")
    views = {name: replace(live.views[name], fingerprint=release.views[name], at=at) for name, at in kept.items()}
    return replace(
        base,
        views={**base.views, **views},
        rejected={**base.rejected, **{name: live.rejected[name] for name in kept if name in live.rejected}},
        after_final={**base.after_final, **{name: live.after_final[name] for name in kept if name in live.after_final}},
    )


def same_records(tables: Tables, source: str, before: str, now: str, cut: Position) -> bool:
    """Whether two decoders found as many events, records and rejects in every archive run that reaches below the cut.

    Runs that reach beyond it count whole: a record there may cause a fold that is not needed, never the reverse.
    """
    runs = {run.number for run in archive.runs(tables, source) if not cut.at_or_below(run.start)}
    found = [
        {
            summary.run: (counts.events, counts.records, counts.rejects, counts.others, counts.holes)
            for summary in archive.summaries(tables, source, decoder)
            if summary.run in runs
            for counts in (summary.counts,)
        }
        for decoder in (before, now)
    ]
    return found[0] == found[1] and found[0].keys() == runs
