"""Keep batch views although the source's event gained optional fields, if the views read none of them."""

from collections.abc import Sequence
from dataclasses import replace

from tandem.batch.release.release_plan import UnreadView
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.publications import Publication


def keep_unread(batch: BatchRun, base: Publication, views: Sequence[UnreadView]) -> Publication:
    """The initial state of a release, with the batch views of the live release that these views can continue.

    A view continues its batch view if no archived record below the live cut is rejected for the fields that the source's event
    gained (tandem.views.fingerprint.unread_fields). The archive must be decoded for both releases.

    The source's counts are computed again nevertheless: conflicts compare duplicates by content, and may be more.
    """
    kept = [view for view in views if _continues(batch, view)]
    return replace(
        base,
        views={**base.views, **{view.name: view.batch_view for view in kept}},
        rejected={**base.rejected, **{view.name: view.rejected for view in kept if view.rejected is not None}},
        after_final={**base.after_final, **{view.name: view.after_final for view in kept if view.after_final is not None}},
    )


def _continues(batch: BatchRun, view: UnreadView) -> bool:
    """Whether the view continues its batch view, which is reported."""
    fields = ", ".join(view.fields)
    if same_records(batch.tables, view.source, *view.decoders, view.cut):
        batch.say(f"{view.name}: keeps its batch view: it does not read {fields}, and no archived record is rejected for them")
        return True
    batch.say(f"{view.name}: is recomputed: {fields} rejects archived records that were events")
    return False


def same_records(tables: Tables, source: str, before: str, now: str, cut: Position) -> bool:
    """Whether two decoders found as many events, records and rejects in every archive run that reaches below the cut.

    Runs that reach beyond it count whole: a record there may cause a fold that is not needed, never the reverse.
    """
    ledger = ArchiveLedger(tables, source)
    runs = {run.number for run in ledger.runs() if not cut.at_or_below(run.start)}
    found = [
        {
            summary.run: (counts.events, counts.records, counts.rejects, counts.others, counts.holes)
            for summary in ledger.summaries(decoder)
            if summary.run in runs
            for counts in (summary.counts,)
        }
        for decoder in (before, now)
    ]
    return found[0] == found[1] and found[0].keys() == runs
