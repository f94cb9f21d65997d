"""The states of a view in a commit of a realtime table."""

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import unreadable
from tandem.ledger.realtime.commits import Commit
from tandem.views.arrow.arrays import from_ipc
from tandem.views.view import View


def states_of(tables: Tables, release: int, view: View, fingerprint: str, commit: Commit) -> pa.Table:
    """The commit's states of the view. Raises Unreadable if they are missing or damaged."""
    try:
        return from_ipc(commit.partials[fingerprint])
    except (KeyError, pa.ArrowException) as error:
        unreadable(f"{tables.realtime(release, view.source.name)}: [{commit.start}, {commit.end})", error)
