"""Maintain a realtime table as its one writer: compact commits, and expire those below all retained cuts."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from tandem.infra.settings import KeepSettings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.publish.releases import Release
from tandem.ledger.publish.standing import Followed, cut_of
from tandem.ledger.realtime.compaction import RECENT, Merge
from tandem.ledger.realtime_writer import Writer
from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.kernel.kernel import merge_states
from tandem.views.view import View


def tend(
    writer: Writer,
    tables: Tables,
    release: Release,
    source: str,
    views: Mapping[str, View],
    *,
    followed: Followed,
    keep: KeepSettings,
    at: datetime,
) -> int:
    """Compact neighbouring commits and expire those below all retained cuts. Returns the number of removed files.

    `views` are the source's by fingerprint. Raises NewerEpoch, Unwritable, Unreadable.
    """
    # The live cut first: a cut that is published meanwhile is then still protected as a reserved one.
    live = cut_of(tables, release.number, source)
    end = ArchiveLedger(tables, source).end(release.sources[source])
    kept = followed.retained(at, publications=keep.publications, since=at - timedelta(days=keep.days))
    cuts = [state.cut(source) for state in kept if state.release == release.number]
    gone = writer.compact(merging(views), live=live, protect=[*cuts, end], at=at, recent=RECENT)
    return gone + writer.expire(cuts, at=at)


def merging(views: Mapping[str, View]) -> Merge:
    """The merge of partials of the views, for tandem.ledger.realtime.compaction."""

    def merge(fingerprint: str, partials: Sequence[bytes]) -> bytes:
        return to_ipc(merge_states(views[fingerprint], [from_ipc(partial) for partial in partials]))

    return merge
