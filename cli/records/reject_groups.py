"""Rejects of values that are not in a log yet, grouped by reason and detail."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from tandem.cli.command.text_tables import cell
from tandem.cli.records.bundles import BundledValue
from tandem.infra import clock
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.views.counted import counted
from tandem.views.decode.sample_records import as_records
from tandem.views.errors import TandemError
from tandem.views.kernel.kernel import decode
from tandem.views.source.source import Source

_MOST_GROUPS: Final = 1000
_SHOWN_BYTES: Final = 80
_TOPIC: Final = "file"


@dataclass(frozen=True)
class RejectGroup:
    """Rejects with one reason and detail: their number, and the line and first bytes of the first of them.

    `unit` names what `line` counts: lines, rows or records. `file` is empty if there is one file only. `index` is the place of
    the event in its record's list, if the event is rejected alone.
    """

    reason: str
    detail: str
    line: int
    first_bytes: str
    count: int = 1
    unit: str = "line"
    file: str = ""
    index: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The group as a document."""
        return {
            **({"file": self.file} if self.file else {}),
            "line": self.line,
            "index": self.index,
            "reason": self.reason,
            "detail": self.detail,
            "first_bytes": self.first_bytes,
            "count": self.count,
        }

    def __str__(self) -> str:
        """The group as a line for a person."""
        times = "" if self.count == 1 else f" ({self.count} times)"
        of = f" of {self.file}" if self.file else ""
        event = "" if self.index is None else f", event {self.index}"
        place = f"{self.unit} {self.line}{of}{event}"
        return f"{place}: {self.reason}: {cell(self.detail)}{times}: {cell(self.first_bytes[:_SHOWN_BYTES])}"


@dataclass
class RejectGroups:
    """All rejects by reason, and groups of the first thousand different ones."""

    reasons: dict[str, int] = field(default_factory=dict)
    groups: dict[tuple[str, str], RejectGroup] = field(default_factory=dict)

    def add(self, rejects: pa.Table) -> None:
        """Add rejects in the columns of REJECTS_SCHEMA, whose offset is the number of the line, from 0 on."""
        columns = [rejects[name].to_pylist() for name in ("offset", "reason", "detail", "first_bytes")]
        indexes = rejects["index"].to_pylist() if "index" in rejects.column_names else [None] * rejects.num_rows
        for offset, reason, detail, start, index in zip(*columns, indexes, strict=True):
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
            if group := self.groups.get((reason, detail)):
                self.groups[reason, detail] = replace(group, count=group.count + 1)
            elif len(self.groups) < _MOST_GROUPS:
                text = (start or b"").decode("utf-8", "backslashreplace")
                self.groups[reason, detail] = RejectGroup(reason, detail, offset + 1, text, index=index)

    @property
    def total(self) -> int:
        """The number of all rejects."""
        return sum(self.reasons.values())

    def largest(self, number: int) -> list[RejectGroup]:
        """The groups with most rejects, in the order of their first lines."""
        chosen = sorted(self.groups.values(), key=lambda group: (-group.count, group.line))[:number]
        return sorted(chosen, key=lambda group: group.line)


def by_reason(reasons: Mapping[str, int]) -> str:
    """Numbers of rejects by reason, as words."""
    return ", ".join(f"{count} {reason}" for reason, count in reasons.items())


def decode_values(
    source: Source, values: Sequence[BundledValue], groups: RejectGroups, schemas: RegistrySchemas | None = None
) -> int:
    """Decode values as the layers would, and add their rejects to the groups. Returns how many belong to other sources.

    `schemas` are those that values name. Raises RegistryAway.
    """
    offsets = [value.line - 1 for value in values]
    records = as_records(source, [value.value for value in values], topic_id=_TOPIC, offsets=offsets, at=clock.now())
    decoded = decode(source if schemas is None else schemas.ready(source, records), records)
    groups.add(decoded.rejects)
    return decoded.others


def sample_sentence(
    source: Source,
    sample: Sequence[BundledValue],
    file: str,
    unit: str = "line",
    *,
    schemas: RegistrySchemas | None = None,
) -> str | None:
    """What of a file's first values cannot be decoded, if anything. Raises TandemError if that is more than half of them."""
    groups = RejectGroups()
    others = decode_values(source, sample, groups, schemas) if sample else 0
    if not groups.total:
        return None
    first = replace(groups.largest(1)[0], unit=unit)
    sentence = f"{groups.total} of the first {counted(len(sample), 'record')} of {file} cannot be decoded, such as {first}"
    if groups.total * 2 > len(sample) - others:
        raise TandemError(
            f"{sentence}; nothing was sent: name another file or source, correct the source, or send all with --allow-rejects",
            code="file-unusable",
        )
    return sentence
