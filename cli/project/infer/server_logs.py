"""The logs of servers that a decoder reads by name, and the fields of them that most views need."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from types import UnionType
from typing import Any, Final, cast

import msgspec

from tandem.cli.project.infer.field_type import FieldType, Kind
from tandem.cli.project.infer.sample import FileSample
from tandem.cli.records.lines import without_end
from tandem.infra import clock
from tandem.views import public as tandem
from tandem.views.decode.value_parsers import parser
from tandem.views.source.decoder import record_parameters
from tandem.views.source.event import Event
from tandem.views.source.fields.reasons import Reject

_FIRST_LINES: Final = 200
"""The lines by which a log's format is recognised."""
_LOG_LINES: Final = 10_000
"""The lines whose values decide the key and the window of the first view."""
_READABLE: Final = 0.8
"""The share of lines that a log's format must read."""


@dataclass(frozen=True)
class _Log:
    """The log of a server: its decoder, and the fields that most views need."""

    call: str
    decoder: Any
    fields: Mapping[str, Any]


_WEB: Final = {"time": datetime, "host": str, "method": str | None, "path": str | None, "status": int, "bytes": int}
_VHOST: Final = {"vhost": str, "sent": int, **{name: of for name, of in _WEB.items() if name != "bytes"}}
_SYSLOG: Final = {"time": datetime, "hostname": str | None, "app": str | None, "message": str}
_LOGS: Final = (
    _Log('apache(format="combined")', tandem.apache(format="combined"), {**_WEB, "agent": str | None}),
    _Log('apache(format="vhost_combined")', tandem.apache(format="vhost_combined"), _VHOST),
    _Log('apache(format="common")', tandem.apache(format="common"), _WEB),
    _Log(
        "aws_alb()",
        tandem.aws_alb(),
        {"time": datetime, "client": str, "elb_status_code": int, "target_processing_time": float, "received_bytes": int},
    ),
    _Log(
        "cloudfront()",
        tandem.cloudfront(),
        {"time": datetime, "x_edge_result_type": str, "cs_method": str, "sc_status": int, "sc_bytes": int, "time_taken": float},
    ),
    _Log("syslog()", tandem.syslog(), {**_SYSLOG, "severity": int}),
    _Log("syslog(structured=False)", tandem.syslog(structured=False), {**_SYSLOG, "procid": str | None, "severity": int}),
    _Log('syslog(zone="{zone}")', None, _SYSLOG),
)
_KINDS: Final[Mapping[Any, Kind]] = {datetime: "time", int: "integer", float: "double", str: "text"}


def log_sample(lines: Sequence[bytes], zone: str | None) -> FileSample | None:
    """The sample of a server's log; None if no format of one reads most lines."""
    several = [bare for line in lines[:_LOG_LINES] if (bare := without_end(line)) and not bare.startswith(b"#")]
    some = several[:_FIRST_LINES]
    if not some:
        return None
    for log in _LOGS:
        where = zone or "UTC"
        decoder = log.decoder or tandem.syslog(zone=where)
        if len(_events(log, decoder, some)) < _READABLE * len(some):
            continue
        events = _events(log, decoder, several)
        columns = {
            name: _log_field(annotation, [getattr(event, name) for event in events]) for name, annotation in log.fields.items()
        }
        note = "" if log.decoder or zone else "the lines have no zone: UTC is a guess"
        return FileSample(log.call.format(zone=where), columns, len(lines), frozenset(), note)
    return None


def _events(log: _Log, decoder: Any, lines: Sequence[bytes]) -> list[Any]:
    """The lines that the decoder reads, as events."""
    parse = parser(cast("type[Event]", msgspec.defstruct("Line", [*log.fields.items()], bases=(Event,), frozen=True)), decoder)
    record = [clock.now() for _ in record_parameters(decoder)]
    events = []
    for line in lines:
        with suppress(Reject):
            events.append(parse(line, *record))
    return events


def _log_field(annotation: Any, values: Sequence[Any]) -> FieldType:
    optional = isinstance(annotation, UnionType)
    of = str if optional else annotation
    span = (min(values), max(values)) if of is datetime else None
    return FieldType(_KINDS[of], of.__name__, missing=optional, span=span, distinct=len(set(values)))
