"""Every decoder gives every record one outcome, whatever its bytes: an event, or a reject with a reason of the closed set."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import csv, tsv
from tandem.views.decode import REASONS
from tandem.views.source.source import Source
from tests.samples import just
from tests.views.decode import test_decode_function, test_values_hold_lists
from tests.views.decode.mutations import mutations
from tests.views.logged import decoded
from tests.views.source.formats import (
    test_apache,
    test_apache_combined,
    test_avro,
    test_aws_logs,
    test_csv,
    test_debezium,
    test_json,
    test_nginx,
    test_nginx_json,
    test_protobuf,
    test_syslog,
    test_syslog_of_senders,
)

DECODERS: dict[str, tuple[Source, list[bytes]]] = {
    "json": (
        test_json.RICH,
        [test_json.rich(price="12.3", raw="AAE=", tags=["a"], spot={"x": 2}, when="2026-11-01T01:00:00.000001+01:00")],
    ),
    "apache_combined": (test_apache_combined.LINES, [test_apache_combined.line()]),
    "nginx_json": (test_nginx_json.ACCESS, [test_nginx_json.line(msec=1431857103.1)]),
    "csv": (test_csv.ROWS, [test_csv.row(s='a "b", c\r\nd', f="1.5", price="1.23", level="2")]),
    "tsv": (
        replace(test_csv.ROWS, decoder=tsv(columns=test_csv.COLUMNS, null=("", "\\N"))),
        [test_csv.row(s="a\\tb\\\n", f="\\N", price="1.23", level="2").replace(b'"', b"").replace(b",", b"\t")],
    ),
    "apache": (
        test_apache.VHOSTS,
        [f'www.example.org:443 ::1 - - {test_apache.TIME} "GET /\\x41\\"\\t HTTP/1.1" 200 512 "-" "caf\\xc3\\xa9"'.encode()],
    ),
    "nginx": (test_nginx.UPSTREAMS, [b"1431857103.123 0.020 10.0.0.1:80, a : b 0.010, - : 0.020 502, 200 : 200 rt=0.1;"]),
    "aws_alb": (test_aws_logs.ALB, [(test_aws_logs.LINE + test_aws_logs.TAIL).encode(), test_aws_logs.LINE.encode()]),
    "cloudfront": (test_aws_logs.CACHED, [test_aws_logs.ROW.encode()]),
    "syslog": (test_syslog.MESSAGES, [text.encode() for text, _ in test_syslog.EXAMPLES]),
    "syslog_3164": (
        test_syslog_of_senders.SENT,
        [b"<34>Oct 11 22:14:15 mymachine su[230]: 'su root' failed", b"<34>1 2026-10-11T22:14:15Z box su 230 - - x"],
    ),
    "avro": (
        test_avro.FRAMED,
        [
            test_avro.framed(7, test_avro.written()),
            test_avro.framed(2**32 - 1, test_avro.written(test_avro.WITH_NOTE, note="a")),
        ],
    ),
    "debezium": (test_debezium.KINDS, [test_debezium.envelope(), test_debezium.envelope("u", schema=True)]),
    "protobuf": (test_protobuf.ORDERS, [test_protobuf.sent(tags=["a"], spots=[{"x": 1}], note="b")]),
    "function": (test_decode_function.PINGS, [test_decode_function.ping(number) for number in range(15)]),
    "header": (
        replace(test_csv.ROWS, decoder=csv(header=True)),
        [test_values_hold_lists.under_header([test_values_hold_lists.backwards(s='a "b"', f="1.5")])],
    ),
    **{
        f"several_{name}": (one.several, [one.join(one.good), one.join([*one.good, one.bad[0]]), one.join(one.good[:1])])
        for name, one in test_values_hold_lists.FORMATS.items()
    },
}
EACH = 200
"""Damaged values in an example: 100 000 of each decoder in the long run."""


@pytest.mark.parametrize("decoder", DECODERS)
@just(500, quick=4)
@given(seed=st.integers(0, 2**32))
def test_every_damaged_value_has_exactly_one_outcome(decoder: str, seed: int) -> None:
    """No exception, one outcome a record, and the same as if it stood alone; of a list, one outcome an event."""
    source, good = DECODERS[decoder]
    values = list(mutations(good, seed, EACH))
    result = decoded(source, *values)
    reasons = result.rejects["reason"].to_pylist()
    assert set(reasons) <= set(REASONS)
    many = source.max_events_per_record
    outcomes: dict[int, list[tuple[int | None, str]]] = {}
    events = result.events["_index"].to_pylist() if many else [None] * result.events.num_rows
    refused = result.rejects["index"].to_pylist() if many else [None] * result.rejects.num_rows
    for table, offset, indexes, outcome in (
        (result.events, "_offset", events, ["event"] * result.events.num_rows),
        (result.rejects, "offset", refused, reasons),
    ):
        assert table[offset].to_pylist() == sorted(table[offset].to_pylist())
        for place, *of_event in zip(table[offset].to_pylist(), indexes, outcome, strict=True):
            outcomes.setdefault(place, []).append(tuple(of_event))
    assert sorted(outcomes) == list(range(EACH))
    for of_record in outcomes.values():
        indexes = [index for index, _ in of_record]
        assert indexes == [None] or (many is not None and sorted(indexes) == list(range(len(indexes))) and len(indexes) <= many)
    for place in range(5):
        alone = decoded(source, values[place])
        expected = [outcome for _, outcome in outcomes[place]]
        assert ["event"] * alone.events.num_rows + alone.rejects["reason"].to_pylist() == expected


@pytest.mark.parametrize("decoder", DECODERS)
def test_values_that_are_not_damaged_are_events(decoder: str) -> None:
    """Else the test above would look at one side only."""
    source, good = DECODERS[decoder]
    assert decoded(source, *good).events.num_rows
