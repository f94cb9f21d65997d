"""Reading a past publication: its batch views at its own cut, as long as they are retained."""

from dataclasses import dataclass
from datetime import datetime

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.gaps import Gaps
from tandem.ledger.publish import publications
from tandem.ledger.publish.publications import Publications
from tandem.serving.read.outcome import Failed
from tandem.serving.read.selection import BadSelection
from tandem.serving.read.snapshot import RealtimeTail, Snapshot
from tandem.views.errors import TandemError


@dataclass(frozen=True)
class PastPublication:
    """One publication for ever: everything below its cut, and nothing of the realtime views, which have moved on."""

    tables: Tables
    number: int

    def refresh(self) -> Snapshot | Failed:
        """The publication at its own cut. Failed: it is not retained, with the retained ones."""
        try:
            every = Publications(self.tables).history()
            publication = next((each for each in every if each.number == self.number), None)
            if publication is None or not publications.whole(self.tables, [publication]):
                left = ", ".join(str(each.number) for each in publications.whole(self.tables, every)) or "none"
                why = "it does not exist" if publication is None else "its batch views are no longer retained"
                return Failed(f"cannot answer from publication {self.number}: {why}; retained: {left}")
            tails = {source: RealtimeTail(cut, cut) for source, cut in publication.cuts.items()}
            return Snapshot(publication, tails, Gaps(self.tables).every())
        except TandemError as error:
            return Failed(str(error))


def live_at(tables: Tables, time: datetime) -> int:
    """The number of the publication that was live at a time. Raises BadSelection before the first."""
    history = Publications(tables).history()
    found = publications.live_at(history, time)
    if found is None:
        first = f"the first publication is of {history[0].at.isoformat()}" if history else "there are no publications yet"
        raise BadSelection(f"nothing was published at {time.isoformat()}: {first}")
    return found.number
