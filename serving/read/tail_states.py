"""The states of a view in a commit of a realtime table."""

import pyarrow as pa

from ledger.delta.addresses import Tables
from ledger.delta.errors import unreadable
from ledger.realtime.commits import Commit
from views.arrow.ipc import from_ipc
from views.view import View


def states_of(tables: Tables, release: int, view: View, fingerprint: str, commit: Commit) -> pa.Table:
    """The commit's states of the view. Raises Unreadable if they are missing or damaged."""
    try:
        return from_ipc(commit.partials[fingerprint])
    except (KeyError, pa.ArrowException) as error:
        unreadable(f"{tables.realtime(release, view.source.name)}: [{commit.start}, {commit.end})", error)
