"""From when on the changed definitions of a release count: `apply --from T`, or `--from now`.

*Now* is the log's own time: the watermark of a view's source where the commits of the live release end. It is taken once, and
stored with the release: the release's files say until when each earlier definition counts (views/project/earlier_files.py).
"""

from datetime import datetime
from typing import Final, Literal

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Releases
from tandem.ledger.realtime.follower import Follower
from tandem.ledger.realtime.tiling import chain
from tandem.views.errors import DefinitionError, TandemError
from tandem.views.fingerprint.from_time import from_time, refuse_several_sources, views_to_change
from tandem.views.instant import nearest_time
from tandem.views.project import project
from tandem.views.project.earlier_files import EARLIER_FILE, earlier_files
from tandem.views.project.project import Project
from tandem.views.source.watermark import later

NOW: Final = "now"

Start = datetime | Literal["now"] | None
"""None: changed views count their whole history by the new definition."""


class NoTime(TandemError, code="time-unknown"):
    """The log has no time yet: no event was counted."""


def starting(releases: Releases, live: Publication, wanted: Project, start: Start) -> Project:
    """The wanted definitions with the earlier ones that stay. Raises DefinitionError for views that cannot begin at a time.

    If the newest release was applied after the live one with the same definitions from now on, its times stay, so that a run
    that was killed continues.
    """
    newest, before = releases.every()[-1], releases.load(live.release)
    if start is None and EARLIER_FILE not in before.files:
        return wanted
    if start == NOW and newest.number > before.number:
        stored = earlier_files(newest.files)
        if stored.views and stored.newest == wanted.files:
            return project.load_files(newest.files)
    try:
        published = project.load_files(before.files)
    except DefinitionError as error:
        raise TandemError(f"the definitions of release {before.number} cannot be used: {error}") from error
    if start is not None:
        refuse_several_sources(wanted, published)
    views = views_to_change(wanted, published) if start == NOW else [*wanted.views]
    sources = [] if start is None else dict.fromkeys(wanted.views[name].source.name for name in views)
    times = {name: _now(releases.tables, live, name) if isinstance(start, str) else start for name in sources if start}
    return from_time(wanted, published, times)


def _now(tables: Tables, live: Publication, source: str) -> datetime:
    commits = chain(Follower(tables, live.release, source).poll(), live.cut(source), across_bridges=True).commits
    reached = later(live.watermarks.get(source), *(commit.watermark for commit in commits))
    if reached is None:
        raise NoTime(
            f"--from now: source {source!r} has counted no event, so its log has no time yet; name a time, such as "
            "--from 2026-12-01T00:00:00Z"
        )
    return nearest_time(reached)
