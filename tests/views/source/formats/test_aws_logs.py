"""Access logs of AWS: lines as AWS documents them, of today and of years ago, and as Python's csv module reads them."""

import csv as rows
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Source, aws_alb, aws_elb, cloudfront
from tandem.views.errors import DefinitionError
from tests.views.logged import decoded, reason


class Balanced(Event):
    time: datetime
    type: str
    client: str
    client_port: int
    target: str | None
    target_processing_time: float
    elb_status_code: int | None
    target_status_code: int | None
    received_bytes: int
    request: str
    method: str | None
    url: str | None
    user_agent: str | None
    trace_id: str
    request_creation_time: datetime
    actions_executed: list[str]
    target_port_list: str | None
    classification_reason: str | None
    conn_trace_id: str = "none"


ALB = Source(topic="t", event=Balanced, event_time="time", decoder=aws_alb())
LINE = (
    "https 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.086 0.048 0.037 "
    '200 200 0 57 "GET https://www.example.com:443/ HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 '
    "arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "
    '"Root=1-58337281-1d84f3d73c47ec4e" "www.example.com" "arn:aws:acm:us-east-2:123456789012:certificate/12345678" '
    '1 2018-07-02T22:22:48.364000Z "authenticate,forward" "-" "-"'
)
TAIL = ' "10.0.0.1:80" "200" "-" "-" TID_dc57cebed65b444ebc8177bb698fe166'


def event(source: Source, line: str) -> dict[str, Any]:
    result = decoded(source, line.encode())
    (row,) = result.events.to_pylist() or result.rejects.to_pylist()
    return {name: field for name, field in row.items() if not name.startswith("_")}


def test_a_line_of_an_application_load_balancer() -> None:
    assert event(ALB, LINE + TAIL) == {
        "time": datetime(2018, 7, 2, 22, 23, 0, 186641, tzinfo=UTC),
        "type": "https",
        "client": "192.168.131.39",
        "client_port": 2817,
        "target": "10.0.0.1:80",
        "target_processing_time": 0.048,
        "elb_status_code": 200,
        "target_status_code": 200,
        "received_bytes": 0,
        "request": "GET https://www.example.com:443/ HTTP/1.1",
        "method": "GET",
        "url": "https://www.example.com:443/",
        "user_agent": "curl/7.46.0",
        "trace_id": "Root=1-58337281-1d84f3d73c47ec4e",
        "request_creation_time": datetime(2018, 7, 2, 22, 22, 48, 364000, tzinfo=UTC),
        "actions_executed": ["authenticate", "forward"],
        "target_port_list": "10.0.0.1:80",
        "classification_reason": None,
        "conn_trace_id": "TID_dc57cebed65b444ebc8177bb698fe166",
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (LINE, {"target_port_list": None, "conn_trace_id": "none"}),
        (LINE + ' "-" "-"\n', {"target_port_list": None, "conn_trace_id": "none"}),
        (LINE + TAIL.replace("TID_", '"TID_').replace("fe166", 'fe166"'), {"reason": "format"}),
        (LINE + TAIL + ' "host" "/uri" "-" 10.0.0.9', {"conn_trace_id": "TID_dc57cebed65b444ebc8177bb698fe166"}),
        (LINE + TAIL + ' "host" "/uri" "-" 10.0.0.9 "more" 7', {"conn_trace_id": "TID_dc57cebed65b444ebc8177bb698fe166"}),
        (LINE + TAIL + " further", {"reason": "format"}),
        (
            LINE.replace("10.0.0.1:80 0.086 0.048 0.037 200 200", "- -1 -1 -1 460 -"),
            {"target": None, "target_processing_time": -1.0},
        ),
        (LINE.replace("192.168.131.39:2817", "[2001:db8::1]:2817"), {"client": "[2001:db8::1]", "client_port": 2817}),
        (LINE.replace("192.168.131.39:2817", "2001:db8::1:2817"), {"client": "2001:db8::1", "client_port": 2817}),
        (LINE.replace('"GET https://www.example.com:443/ HTTP/1.1"', '"- - - "'), {"method": None, "url": None}),
        (LINE.replace('"-" "-"', '"-" "-'), {"reason": "format"}),
        (LINE.replace("22:23:00.186641Z", "25:23:00.186641Z"), {"reason": "invalid_value"}),
    ],
    ids=range(12),
)
def test_lines_of_other_years_and_requests(line: str, expected: dict[str, Any]) -> None:
    found = event(ALB, line)
    assert {name: found[name] for name in expected} == expected


WORD = st.text(st.sampled_from("ab/-.:=%é"), min_size=1, max_size=8)
QUOTED = st.text(st.sampled_from("ab /-.:=%é,"), max_size=8)


class AllTexts(Event):
    time: datetime
    elb: str
    user_agent: str
    ssl_cipher: str
    target_group_arn: str
    trace_id: str
    redirect_url: str
    error_reason: str
    target_port_list: str = ""
    classification: str = ""
    conn_trace_id: str = ""


@given(words=st.tuples(WORD, WORD, WORD, WORD), quoted=st.lists(QUOTED, min_size=6, max_size=6), tail=st.integers(0, 5))
def test_fields_are_those_of_a_csv_reader(words: tuple[str, ...], quoted: list[str], tail: int) -> None:
    """Python's csv module reads such lines: spaces between fields, and quotes."""
    elb, cipher, arn, trace = words
    agent, root, url, error, port, class_ = quoted
    more = [f'"{port}"', '"200"', f'"{class_}"', '"-"', trace][:tail]
    line = (
        f'http 2018-07-02T22:23:00Z {elb} 1.1.1.1:1 - 0 0 0 200 - 0 57 "GET / HTTP/1.1" "{agent}" {cipher} - {arn} "{root}" '
        f'"-" "-" 1 2018-07-02T22:22:48Z "-" "{url}" "{error}" {" ".join(more)}'
    ).rstrip()
    (row,) = rows.reader([line], delimiter=" ")
    row += [""] * (30 - len(row))
    places = {"elb": 2, "user_agent": 13, "ssl_cipher": 14, "target_group_arn": 16, "trace_id": 17, "redirect_url": 23,
              "error_reason": 24, "target_port_list": 25, "classification": 27, "conn_trace_id": 29}  # fmt: skip
    found = event(Source(topic="t", event=AllTexts, event_time="time", decoder=aws_alb()), line)
    assert {name: found[name] for name in places} == {name: row[place] for name, place in places.items()}


class Classic(Event):
    time: datetime
    client: str
    backend: str | None
    backend_processing_time: float
    elb_status_code: int | None
    sent_bytes: int
    method: str | None
    user_agent: str | None
    ssl_protocol: str | None


def test_lines_of_a_classic_load_balancer() -> None:
    source = Source(topic="t", event=Classic, event_time="time", decoder=aws_elb())
    start = "2015-05-13T23:39:43.945958Z my-loadbalancer 192.168.131.39:2817 10.0.0.1:80 0.001069 0.000028 0.000041"
    new = event(
        source, f'{start} 200 200 0 29 "GET https://www.example.com:443/ HTTP/1.1" "curl/7.38.0" DHE-RSA-AES128-SHA TLSv1.2'
    )
    assert (new["elb_status_code"], new["method"], new["user_agent"], new["ssl_protocol"]) == (
        200,
        "GET",
        "curl/7.38.0",
        "TLSv1.2",
    )
    tcp = event(source, f'{start} - - 82 305 "- - - " "-" ECDHE-ECDSA-AES128-GCM-SHA256 TLSv1.2')
    assert (tcp["elb_status_code"], tcp["sent_bytes"], tcp["method"], tcp["user_agent"]) == (None, 305, None, None)
    old = event(source, f'{start} 200 200 0 29 "GET http://www.example.com:80/ HTTP/1.1"')
    assert (old["method"], old["user_agent"], old["ssl_protocol"]) == ("GET", None, None)


class Cached(Event):
    time: datetime
    x_edge_location: str
    sc_bytes: int
    sc_status: int | None
    cs_user_agent: str
    time_taken: float | None
    x_forwarded_for: list[str] | None
    sc_range_end: int | None


CACHED = Source(topic="t", event=Cached, event_time="time", decoder=cloudfront())
NAMES = "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status\n"
ROW = (
    "2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td111111abcdef8.cloudfront.net\t/index.html\t200\t-\tMozilla/5.0%20(Windows)\t-\t-"
    "\tHit\tSOX4xwn4XV6Q4rgb7XiVGOHms_BGlTAC4KyHmureZmBNrjGdRLiNIQ==\td111111abcdef8.cloudfront.net\thttps\t23\t0.001\t-\tTLSv1.2"
    "\tECDHE-RSA-AES128-GCM-SHA256\tHit\tHTTP/2.0\t-\t-\t11040\t0.001\tHit\ttext/html\t78\t-\t-"
)


def test_lines_of_cloudfront() -> None:
    assert event(CACHED, ROW) == {
        "time": datetime(2019, 12, 4, 21, 2, 31, tzinfo=UTC),
        "x_edge_location": "LAX1",
        "sc_bytes": 392,
        "sc_status": 200,
        "cs_user_agent": "Mozilla/5.0%20(Windows)",
        "time_taken": 0.001,
        "x_forwarded_for": None,
        "sc_range_end": None,
    }
    assert event(CACHED, ROW.replace("\t200\t", "\t000\t"))["sc_status"] == 0
    assert event(CACHED, ROW.replace("\t200\t", "\t-\t"))["sc_status"] is None
    old = "\t".join(ROW.split("\t")[:13])
    assert event(CACHED, old)["time_taken"] is None
    assert event(CACHED, "\t".join(ROW.split("\t")[:12]))["reason"] == "format"
    assert event(CACHED, ROW + "\tmore\tfields")["sc_bytes"] == 392


def test_comments_are_not_events() -> None:
    assert [reason(CACHED, line.encode()) for line in NAMES.splitlines()] == ["format", "format"]
    several = Source(topic="t", event=Cached, event_time="time", decoder=cloudfront(), max_events_per_record=5)
    assert decoded(several, f"{NAMES}{ROW}\n{ROW}\n".encode()).events.num_rows == 2


def test_other_fields_of_a_file_are_not_read_as_these() -> None:
    """Standard logging may be configured to write other fields, or another order."""
    several = Source(topic="t", event=Cached, event_time="time", decoder=cloudfront(), max_events_per_record=5)
    full = NAMES.replace("sc-status", "sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type")
    assert decoded(several, f"{full}{ROW}".encode()).events.num_rows == 1
    for names in (NAMES.replace("x-edge-location ", ""), NAMES.replace("cs-method cs(Host)", "cs(Host) cs-method")):
        result = decoded(several, f"{names}{ROW}".encode())
        assert (result.events.num_rows, result.rejects["reason"].to_pylist()) == (0, ["format"])
    assert result.rejects["detail"][0].as_py() == "#Fields has cs(Host) in the place of cs_method"


class Lists(Event):
    time: datetime
    target_port_list: list[str]
    target_status_code_list: list[int]


class Forwarded(Event):
    time: datetime
    x_forwarded_for: list[str]


def test_lists_have_the_separators_of_their_writers() -> None:
    """Spaces in a load balancer's, and in CloudFront's the encoded space of X-Forwarded-For."""
    balanced = Source(topic="t", event=Lists, event_time="time", decoder=aws_alb())
    found = event(balanced, LINE + ' "10.0.0.1:80 10.0.0.2:80" "502 200"')
    assert (found["target_port_list"], found["target_status_code_list"]) == (["10.0.0.1:80", "10.0.0.2:80"], [502, 200])
    cached = Source(topic="t", event=Forwarded, event_time="time", decoder=cloudfront())
    for separator in (",", ",%20", ",%20%20"):
        line = ROW.replace("0.001\t-\tTLSv1.2", f"0.001\t2001:db8::1{separator}10.0.0.2\tTLSv1.2")
        assert event(cached, line)["x_forwarded_for"] == ["2001:db8::1", "10.0.0.2"]


def test_an_event_type_cannot_ask_for_what_no_line_has() -> None:
    class Odd(Event):
        time: datetime
        backend: str

    with pytest.raises(DefinitionError, match=r"Odd\.backend: a load balancer's log has no such field; fields: "):
        aws_alb().parser(Odd)
