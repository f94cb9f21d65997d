"""The speed layer: every source of the live release followed by a query of its own, all in one process."""

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from threading import Event

from infra import broker, kafka
from infra.settings import Settings
from infra.spark import session
from infra.spark_failures import JavaEnded, java_ended
from ledger import first, publications, releases
from ledger.publications import Publication
from ledger.tables import Tables
from speed.follow import Follow, Surroundings, follow
from speed.query import CONF
from views.project import Project, load_files

APP = "speed"
_LOOK_S = 0.2
_LOOKS_PER_PUBLICATION = 5


def run(
    settings: Settings,
    project: Callable[[], Project],
    *,
    stop: Event,
    now: Callable[[], datetime],
    say: Callable[[str], None],
    ready: Callable[[], object],
    environ: Mapping[str, str],
    debug: bool = False,
) -> None:
    """Run until `stop` is set: the published release's definitions, and after a new publication those of its release.

    `ready` is called when every table is claimed and every query runs, again after a move to another release.
    `project` is asked only if nothing is published yet: its definitions become publication 1. Raises a TandemError that
    says in a sentence what ended the layer; all that was committed stays, and another run goes on from there.
    """
    tables = Tables(settings.state)
    by = f"speed (process {os.getpid()})"
    connection = kafka.connect(broker.address(settings))
    live = publications.latest(tables) or first.live(tables, project(), by=by, at=now())
    spark = session(settings, APP, environ=environ, conf=CONF, debug=debug)
    around = Surroundings(spark, settings, tables, connection, by, now, say, stop.is_set)
    try:
        while not stop.is_set():
            live = _follow_release(around, live, stop, ready)
        spark.stop()
    except Exception as error:
        if java_ended(error):
            log = settings.folder / "logs" / f"spark-{APP}.log"
            raise JavaEnded(f"Spark's Java process has ended; {log} may say why; what was committed stays") from error
        raise


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
                newest = publications.latest(around.tables)
                if newest is not None and newest.release != live.release:
                    around.say(f"release {newest.release} is live: going on with its definitions")
                    return newest
        return live
    finally:
        for each in following:
            each.stop()
