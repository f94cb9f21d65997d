"""Asks Tandem's merged reader for markers: STATE VIEW PREFIX. Prints each new path, and when an answer had it.

Markers are numbered: when the tables have changed it asks for the row of the next few, as a user would ask. It ends with its
input.
"""

import sys
import time

from tandem.bench.input_end import watched
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Value
from tandem.serving.read.snapshot import Snapshot

LOOK_S = 0.01
# Partitions are read apart, so that a marker may be counted before an earlier one.
AHEAD = 20


def main(state: str, view: str, prefix: str) -> None:
    """Follow the view until the input ends."""
    ended, reader, before = watched(), Reader(Tables.of(Settings(state=state))), None
    first, seen = 0, set[int]()
    while not ended.wait(LOOK_S):
        snapshot = reader.refresh()
        if not isinstance(snapshot, Snapshot) or (at := snapshot.positions) == before:
            continue
        before, missing, number = at, 0, first
        while missing < AHEAD:
            if number not in seen:
                path = f"{prefix}{number}"
                if isinstance(reader.answer(view, keys={"path": path}), Value):
                    seen.add(number)
                    print(path, time.time(), flush=True)
                else:
                    missing += 1
            number += 1
        while first in seen:
            first += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
