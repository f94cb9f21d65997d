"""Access logs of AWS's load balancers and of CloudFront: one value is one line, as the files in S3 have it.

| decoder        | fields                                                                                                |
| -------------- | ----------------------------------------------------------------------------------------------------- |
| `aws_alb()`    | those of an Application Load Balancer: `client:port` is `client` and `client_port`, `target:port` is `target` |
| `aws_elb()`    | those of a Classic Load Balancer: `client:port` as above, `backend:port` is `backend`                  |
| `cloudfront()` | those of CloudFront's standard logs: `cs(User-Agent)` is `cs_user_agent`; `time` is its date and time   |

* `time` is a datetime. `request` also gives `method`, `url` and `protocol`. A text is read by the type of its field.
* `-` is null in an Optional field; elsewhere a str takes it. A time of `-1` is a request that was not sent to its end.
* Texts stay as they are logged, with what AWS encodes in them (`%20`).
* A line may lack the last fields, which AWS has added over the years, and may have further ones: they are null or their default.
* CloudFront's comments, `#Version:` and `#Fields:`, are rejected; among several lines of a value they are left out. A value whose
  `#Fields:` names other fields, as standard logging may be configured to, is rejected.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import pyarrow as pa

from tandem.views.definition_text import call
from tandem.views.source.event import TIMESTAMP, Event
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.time_reader import iso_time
from tandem.views.source.format import Listed, Parse
from tandem.views.source.formats.access_logs.log_lines import Slot, line_parser
from tandem.views.source.formats.access_logs.log_slots import DIGITS, LIST_SEPARATOR, WORD, lines_of
from tandem.views.source.formats.lines import EventOfLine, by_line

_ALB: Final = (
    "type time elb client:client_port target request_processing_time target_processing_time response_processing_time "
    'elb_status_code target_status_code received_bytes sent_bytes "request" "user_agent" ssl_cipher ssl_protocol '
    'target_group_arn "trace_id" "domain_name" "chosen_cert_arn" matched_rule_priority request_creation_time '
    '"actions_executed" "redirect_url" "error_reason" "target_port_list" "target_status_code_list" "classification" '
    '"classification_reason" conn_trace_id "transformed_host" "transformed_uri" "request_transform_status" alb_node_ip'
)
_ALB_TAIL: Final = 12
"""The fields since error_reason, which AWS has added from 2018 on."""
_ELB: Final = (
    "time elb client:client_port backend request_processing_time backend_processing_time response_processing_time "
    'elb_status_code backend_status_code received_bytes sent_bytes "request" "user_agent" ssl_cipher ssl_protocol'
)
_ELB_TAIL: Final = 3
_CLOUDFRONT: Final = (
    "time x_edge_location sc_bytes c_ip cs_method cs_host cs_uri_stem sc_status cs_referer cs_user_agent cs_uri_query cs_cookie "
    "x_edge_result_type x_edge_request_id x_host_header cs_protocol cs_bytes time_taken x_forwarded_for ssl_protocol ssl_cipher "
    "x_edge_response_result_type cs_protocol_version fle_status fle_encrypted_fields c_port time_to_first_byte "
    "x_edge_detailed_result_type sc_content_type sc_content_len sc_range_start sc_range_end"
)
_CLOUDFRONT_TAIL: Final = 20
"""The fields since x_edge_result_type: the oldest logs have twelve before it, in thirteen columns."""
_DATE_AND_TIME: Final = r"\d{4}-\d\d-\d\d\t\d\d:\d\d:\d\d"
_STATUSES: Final = ("elb_status_code", "target_status_code", "backend_status_code", "sc_status")
"""Among them 000, of a connection that ended before an answer."""
_SEPARATORS: Final = {
    **dict.fromkeys(("target_port_list", "target_status_code_list"), re.compile(" ")),
    "x_forwarded_for": re.compile(r",(?:\s|%20)*"),
}
"""What separates the values of lists, where it is not a comma. CloudFront encodes spaces."""
_FIELDS: Final = b"#Fields:"
_NAME: Final = re.compile(r"\w+")


def _time(text: str) -> datetime:
    try:
        return iso_time(text)
    except Reject as reject:
        raise Reject(reject.reason, f"time {text[:40]!r}: {reject.detail}") from reject


def _utc(text: str) -> datetime:
    return _time(text.replace("\t", "T") + "Z")


def _tokens(fields: str, time: Slot) -> Iterator[str | Slot]:
    place = 0
    word = r'[^\s"]++' if '"' in fields else r"\S++"
    for match in _NAME.finditer(fields):
        yield fields[place : match.start()]
        place, name = match.end(), match[0]
        if name == "time":
            yield time
        elif name in _STATUSES:
            yield Slot(name, r"(?:\d{3}|-)", pa.int64(), int)
        else:
            by_context = name == "client" or fields[match.start() - 1 : match.start()] == '"'
            several = _SEPARATORS.get(name, LIST_SEPARATOR)
            yield Slot(name, DIGITS if name == "client_port" else WORD if by_context else word, several=several)
    yield fields[place:]


_ISO: Final = Slot("time", r"\S++", TIMESTAMP, _time, only=True)
_PARTS: Final = ("method", "url", "protocol")
_LAYOUTS: Final = {
    "aws_alb": lines_of("a load balancer's log", _tokens(_ALB, _ISO), request=_PARTS, tail=_ALB_TAIL),
    "aws_elb": lines_of("a classic load balancer's log", _tokens(_ELB, _ISO), request=_PARTS, tail=_ELB_TAIL),
    "cloudfront": lines_of(
        "CloudFront's log",
        _tokens(_CLOUDFRONT.replace(" ", "\t"), Slot("time", _DATE_AND_TIME, TIMESTAMP, _utc, only=True)),
        tail=_CLOUDFRONT_TAIL,
    ),
}


@dataclass(frozen=True)
class AwsLog(EventOfLine):
    """The decoder of one `kind` of AWS's access logs."""

    kind: Literal["aws_alb", "aws_elb", "cloudfront"]

    def parser(self, event: type[Event]) -> Parse:
        """A function from one line to one event; raises DefinitionError if the event type has a field that no line has."""
        parse = line_parser(_LAYOUTS[self.kind], event)
        return _without_comments(parse) if self.kind == "cloudfront" else parse

    def listed(self, event: type[Event]) -> Listed:
        """Values with a log line in each line, or a comment; raises DefinitionError as `parser` does."""
        lines = by_line(self.parser(event))
        if self.kind != "cloudfront":
            return lines
        return Listed(lambda value: _requests(lines.split(value)), lines.parse)

    def __str__(self) -> str:
        return call(self.kind)


def aws_alb() -> AwsLog:
    """Decode access logs of AWS's Application Load Balancers: one value is one line; with `max_events_per_record`, several."""
    return AwsLog("aws_alb")


def aws_elb() -> AwsLog:
    """Decode access logs of AWS's Classic Load Balancers: one value is one line; with `max_events_per_record`, several."""
    return AwsLog("aws_elb")


def cloudfront() -> AwsLog:
    """Decode CloudFront's standard access logs: one value is one line; with `max_events_per_record`, several."""
    return AwsLog("cloudfront")


def _requests(lines: Sequence[bytes]) -> list[bytes]:
    """The lines that are not comments. Raises Reject if a comment names other fields, or another order, than lines have here."""
    for line in lines:
        if line.startswith(_FIELDS):
            names = line.removeprefix(_FIELDS).decode(errors="replace").split()
            for name, expected in zip(names, ("date", *_CLOUDFRONT.split()), strict=False):
                if "_".join(_NAME.findall(name.lower())) != expected:
                    raise Reject("format", f"#Fields has {name[:40]} in the place of {expected}")
    return [line for line in lines if not line.startswith(b"#")]


def _without_comments(parse: Parse) -> Parse:
    def parse_line(value: bytes) -> Any:
        if value.startswith(b"#"):
            raise Reject("format", "a comment, not a request")
        return parse(value)

    return parse_line
