"""The speed layer: every source of the live release followed by a query of its own, all in one process."""

import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from threading import Event

from pyspark.sql import SparkSession

from infra import broker, kafka, processes
from infra.settings import Settings
from infra.spark_failures import worded
from ledger import first, publications, releases
from ledger.publications import Publication
from ledger.tables import Tables
from speed.follow import Follow, Surroundings, follow
from views.project import Project, load_files

_ENDED = "the speed layer has ended; what was committed stays, and another run goes on from there"
_LOOK_S = 0.2
_LOOKS_PER_PUBLICATION = 5


def run(
    settings: Settings,
    *,
    project: Callable[[], Project],
    session: Callable[[], SparkSession],
    stop: Event,
    now: Callable[[], datetime],
    say: Callable[[str], None],
    ready: Callable[[], object],
) -> None:
    """Run until `stop` is set: the published release's definitions, and after a new publication those of its release.

    `project` is asked only if nothing is published yet: its definitions become publication 1. `session` is asked for once
    there is a log to read; speed.query.CONF is meant for it. `ready` is called when every table is claimed and every query
    runs, and again after a move to another release. Raises a TandemError that says in a sentence what ended the layer; all
    that was committed stays, and another run goes on from there.
    """
    tables = Tables(settings.state)
    by = f"speed (process {os.getpid()})"
    connection = kafka.connect(broker.address(settings))
    live = publications.latest(tables) or first.live(tables, project, by=by, at=now())
    checkpoints = _own_folder(settings.folder / "speed")
    around = Surroundings(session(), settings, tables, connection, checkpoints, by, now, say, stop.is_set)
    try:
        while not stop.is_set():
            live = _follow_release(around, live, stop, ready)
    except Exception as error:
        if told := worded(error, _ENDED):
            raise told from error
        raise
    finally:
        shutil.rmtree(checkpoints, ignore_errors=True)


def _own_folder(parent: Path) -> Path:
    """A new folder for this process's checkpoints; those of processes that were killed go."""
    parent.mkdir(parents=True, exist_ok=True)
    for folder in parent.glob("[0-9]*-*"):
        if not processes.start_time(int(folder.name.partition("-")[0])):
            shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=parent))


def _follow_release(around: Surroundings, live: Publication, stop: Event, ready: Callable[[], object]) -> Publication:
    """Follow the sources of one release; the newer publication of another release, or this one if `stop` was set."""
    release = releases.load(around.tables, live.release)
    project = load_files(release.files)
    following: list[Follow] = []
    try:
        for source in project.sources.values():
            views = {name: view for name, view in project.views.items() if view.source.name == source.name}
            following.append(follow(around, release, source, views, live))
        if not stop.is_set():
            ready()
        looks = 0
        while not stop.wait(_LOOK_S):
            for each in following:
                each.check()
            looks += 1
            if looks % _LOOKS_PER_PUBLICATION == 0:
                newest = publications.latest(around.tables) or live
                if newest.release != live.release:
                    around.say(f"release {newest.release} is live: going on with its definitions")
                    return newest
                for each in following:
                    # It may know what this layer never read, because a batch has bridged it.
                    each.tail.live = newest
        return live
    finally:
        for each in following:
            each.stop()
