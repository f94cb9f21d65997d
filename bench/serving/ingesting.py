"""A process that commits: FOLDER KEYS PAGES EVERY_S PUBLISH_EVERY, until its standard input ends.

Each commit is of a request of at most PAGES different pages of KEYS. After each PUBLISH_EVERY commits all that is counted is
published below a new cut; never if that is 0. Few files are made of many as often as the speed layer does that by default. A line
of JSON says of each commit where it ends and when it was made, by the machine's monotonic clock.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from deltalake import DeltaTable

from tandem.bench.input_end import watched
from tandem.bench.serving.published import SMALL, VIEW, Numbers, PublishedTail, by_minute, publish_version, states, write_version
from tandem.infra.settings import SpeedSettings
from tandem.ledger.delta.addresses import Tables
from tandem.views.project import project


class Ingesting:
    """Commits to the tables of a folder, which have had one request of each page, and publishes what is counted."""

    def __init__(self, folder: Path, keys: int) -> None:
        self.tables = Tables(str(folder / ".tandem" / "tables"))
        self.tail, self._views = PublishedTail(folder, self.tables), project.load(folder).views
        self._hits, self._version = np.ones(keys, np.int64), 1

    def commit(self, pages: Numbers) -> None:
        """One more request of these pages."""
        self.tail.commit(pages)
        self._hits[pages] += 1

    def publish(self) -> None:
        """Publish what is counted, as a full recompute does; of what was published before the newest two stay."""
        self._version += 1
        cut, pages = self.tail.end, np.arange(len(self._hits))
        counted = {VIEW: states(self._views[VIEW], pages, self._hits), SMALL: by_minute(self._views[SMALL], pages, self._hits)}
        for name, table in counted.items():
            write_version(self.tables, name, self.tail.fingerprints[name], self._version, table)
        publish_version(self.tables, self._version, {name: len(table) for name, table in counted.items()}, cut)
        for name in counted:
            DeltaTable(self.tables.view(name, self.tail.fingerprints[name])).delete(f"batch_version < {self._version - 1}")
        self.tail.cut = cut


def main(folder: Path, keys: int, pages: int, every_s: float, publish_every: int) -> None:
    """Commit until nobody is there any more."""
    ingesting, over, dice, number = Ingesting(folder, keys), watched(), np.random.default_rng(11), 0
    while not over.wait(every_s):
        ingesting.commit(np.unique(dice.integers(0, keys, pages)))
        print(json.dumps({"end": ingesting.tail.end.to_json(), "at": time.monotonic()}), flush=True)
        number += 1
        if number % SpeedSettings().compact_every == 0:
            ingesting.tail.compact()
        if publish_every and number % publish_every == 0:
            ingesting.publish()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
