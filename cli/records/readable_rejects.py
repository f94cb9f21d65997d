"""How many rejects of each source become readable under new definitions: they are decoded, from the archive."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tandem.cli.records.redecode import decode_again
from tandem.infra.settings import RegistrySettings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.registry_schemas import schemas_in
from tandem.ledger.publish.releases import Release
from tandem.serving.status.quarantine import rejects
from tandem.views.counted import counted
from tandem.views.project.project import Project
from tandem.views.source.source import Source

MOST: Final = 10_000
"""The most rejects of a source that are decoded: the newest."""


@dataclass(frozen=True)
class ReadableRejects:
    """The rejects of a source under its published decoder, and what another decoder makes of the newest.

    Args:
        rejects: all in quarantine, records and events of lists.
        tried: how many of the newest were decoded, at most MOST.
        readable: of these, those that become events.
        reasons: of these, those that stay rejects, by reason.
    """

    rejects: int
    tried: int
    readable: int
    reasons: Mapping[str, int] = field(hash=False)

    def to_json(self) -> dict[str, Any]:
        """As `plan --json` prints it."""
        return {"rejects": self.rejects, "tried": self.tried, "readable": self.readable, "reasons": dict(self.reasons)}

    def sentence(self, source: str) -> str:
        """The outcome for a person; it names the bound, if it mattered."""
        bounded = self.tried < self.rejects
        of = f"the newest {self.tried} of {self.rejects} rejects" if bounded else counted(self.rejects, "reject")
        rest = ", ".join(f"{number} {reason}" for reason, number in sorted(self.reasons.items()))
        return f"source {source}: of {of} {self.readable} become readable" + (f"; still rejected: {rest}" if rest else "")


def readable_rejects(tables: Tables, before: Release, after: Project, decoders: Mapping[str, str]) -> dict[str, ReadableRejects]:
    """By name the sources with rejects of which the decoder changes; `decoders` are the new ones. Raises Unreadable."""
    changed = {
        name: source for name, source in after.sources.items() if before.sources.get(name, decoders[name]) != decoders[name]
    }
    return {name: each for name, source in changed.items() if (each := _of_source(tables, source, before.sources[name])).rejects}


def _of_source(tables: Tables, source: Source, decoder: str) -> ReadableRejects:
    total = sum(summary.counts.rejects for summary in ArchiveLedger(tables, source.name).summaries(decoder))
    if not total:
        return ReadableRejects(0, 0, 0, {})
    newest = rejects(tables, source.name, decoder, limit=MOST)
    columns = (newest[name].to_pylist() for name in ("topic_id", "partition", "offset", "index"))
    # The stored schemas alone: neither `plan` nor `apply` asks a registry for an estimate.
    source = schemas_in(RegistrySettings(), tables).bind(source)
    done = decode_again(tables, source, zip(*columns, strict=True))
    return ReadableRejects(total, done.tried, len(done.numbers), done.reasons)
