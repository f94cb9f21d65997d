"""Definitions for a server: releases as data, and a confined process for each release whose code is needed."""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from tandem.infra.folders import IMPORTED, ROOT
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish import documents
from tandem.ledger.publish.releases import Release
from tandem.serving.code.messages import Limits
from tandem.serving.code.release import CodeFailed, ReleaseCode
from tandem.serving.code.zygote import Nursery
from tandem.serving.ingest.trial_decode import Reading, read
from tandem.views.document.described_definitions import decoded_elsewhere
from tandem.views.document.project_from_document import from_document, is_current
from tandem.views.project.project import Project
from tandem.views.source.source import Source

IDLE_S: Final = 10.0
"""How long the process of a release that is not live may wait for the next request."""
_SYSTEM: Final = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/usr/share/zoneinfo")
_OWN: Final = ("views", "serving", "src")


@dataclass
class DescribedDefinitions:
    """The definitions of releases from their documents, for any number of threads; close it.

    A release that was stored without a document, or by a platform with other fingerprints, is described by its process.
    """

    tables: Tables
    limits: Limits
    clock: Callable[[], float] = time.monotonic
    nursery: Nursery = field(init=False)
    _known: dict[int, tuple[Release, Project, ReleaseCode]] = field(default_factory=dict, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        self.nursery = Nursery(self.limits, tuple(path for path in (str(IMPORTED), *sys.path) if path))

    def project(self, release: Release) -> Project:
        """The project that a release defines, one object while it is cached. Raises DefinitionError, CodeFailed, Unreadable."""
        with self._lock:
            known = self._known.get(release.number)
            if known is None or known[0] != release:
                code = ReleaseCode(release.number, release.files, self.nursery, self.clock) if known is None else known[2]
                stored = documents.of(self.tables, release.number)
                document = stored if is_current(stored) else code.document()
                known = release, from_document(document, release.files, code.run), code
                self._known[release.number] = known
            return known[1]

    def live(self, release: int) -> None:
        """End the idle processes of other releases; not while one of them is being described."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            for number, (_, _, code) in self._known.items():
                if number != release and code.idle_for() > IDLE_S:
                    code.end()
        finally:
            self._lock.release()

    def read(
        self, source: Source, topic: str, values: Sequence[bytes], headers: Sequence[Mapping[str, bytes]], at: datetime
    ) -> Reading:
        """See reading.read; the release's process decodes records that only its code can decode. Raises CodeFailed."""
        if not decoded_elsewhere(source):
            return read(source, topic, values, headers, at)
        with self._lock:
            of = [code for _, project, code in self._known.values() if project.sources.get(source.name) is source]
        if not of:
            raise CodeFailed(f"the release of source {source.name!r} was replaced meanwhile; try again")
        return of[0].read(source, topic, values, headers, at)

    def close(self) -> None:
        """End all processes."""
        self.nursery.close()


def readable(hidden: Sequence[Path]) -> tuple[str, ...]:
    """The folders of Python, its packages and the platform, except those that contain a `hidden` one."""
    hides = [*(path.resolve() for path in hidden), IMPORTED]
    packages = [Path(path).resolve() for path in (*sys.path, sys.prefix, sys.base_prefix) if path]
    shown = [path for path in packages if not any(one.is_relative_to(path) for one in hides)]
    return tuple(map(str, dict.fromkeys([*map(Path, _SYSTEM), *shown, *(ROOT / name for name in _OWN)])))
