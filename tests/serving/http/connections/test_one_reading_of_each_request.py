"""A request that two readers could take for different ones is refused, and odd ones get an answer that is none of a defect."""

import gzip
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.requests.proper import parsed
from tests.samples import share
from tests.serving.http.connections.test_what_is_no_proper_request import sent
from tests.serving.http.served import Served, serving
from tests.serving.world import forty_hits

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@share(100, quick=20)
@given(VALUES)
def test_valid_json_has_its_value(value: object) -> None:
    assert parsed(json.dumps(value).encode()) == value
    assert parsed(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")) == value


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "Expecting value"),
        (b'{"a": 1, "b": {"c": 1, "c": 1}}', "key 'c' occurs twice in one object"),
        (b'{"a": NaN}', "NaN is not a number of JSON"),
        (b"[-Infinity]", "-Infinity is not a number of JSON"),
        (b"1e400", "1e400 is larger than any accepted number"),
        (b"-" + b"9" * 5000, "a number of 5001 digits is larger"),
        (b'"\xff"', "byte 1 is not UTF-8"),
        (b"\xef\xbb\xbf1", "BOM"),
        ('{"a": 1}'.encode("utf-16"), "byte 0 is not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[1] [2]", "Extra data"),
        (b"'a'", "Expecting value"),
    ],
    ids=lambda given: None if isinstance(given, bytes) else given,
)
def test_invalid_json_is_refused_with_the_reason(body: bytes, why: str) -> None:
    with pytest.raises(Problem) as refused:
        parsed(body)
    assert refused.value.status_code == 400
    assert why in refused.value.detail


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(forty_hits(tmp_path_factory.mktemp("world")), {"burst": 10**6, "rate": 10**6, "failed_logins": 10**6})


@pytest.fixture(scope="module")
def address(served: Served) -> Iterator[str]:
    with serving(served) as found:
        yield found


@pytest.fixture(scope="module")
def secret(served: Served) -> str:
    return served.token("odd", may=("read", "sql", "ingest"))


def request(what: str | bytes, secret: str, *headers: str | bytes, body: bytes = b"", version: str = "1.1") -> bytes:
    """A request as bytes, with the length of its body if nothing says that."""
    lines = [*((one.encode() if isinstance(one, str) else one) for one in headers), f"Authorization: Bearer {secret}".encode()]
    if not any(line.lower().startswith((b"transfer-encoding", b"content-length")) for line in lines):
        lines.append(b"Content-Length: %d" % len(body))
    first = (what.encode() if isinstance(what, str) else what) + f" HTTP/{version}".encode()
    return b"\r\n".join([first, b"Host: served", *lines, b"Connection: close", b"", body])


JSON = "Content-Type: application/json"
CHUNKED = "Transfer-Encoding: chunked"
STATEMENT = b'{"statement": "SELECT 1 AS n"}'
LOOKUP = "POST /views/per_page/lookup"


@pytest.mark.parametrize(
    ("what", "headers", "body", "status"),
    [
        ("GET /views/per_page/rows?key.page=%ff", (), b"", 400),
        ("GET /views/per_page/rows?key.%ff=1", (), b"", 400),
        ("GET /views/per_page/rows?key.page=%ed%a0%80", (), b"", 400),
        ("GET /views/%c0%80", (), b"", 400),
        ("GET /views/per_page/rows?key.page=%c3%a4", (), b"", 200),
        (b"GET /views/\xff", (), b"", 400),
        ("GET /views/%zz", (), b"", 404),
        ("GET /views/%2e%2e/%2e%2e/etc/passwd", (), b"", 404),
        ("GET http://served/me", (), b"", 200),
        ("GET served:80", (), b"", 400),
        ("OPTIONS *", (), b"", 404),
        ("TRACE /me", (), b"", 405),
        ("GET /me?token=SECRET", ("Authorization: none",), b"", 401),
        ("GET /me", ("Range: bytes=0-1",), b"", 200),
        ("GET /me", ("X: a\r\n folded",), b"", 400),
        ("GET /me", ("X : a",), b"", 400),
        ("GET /views/per_page/rows", ("If-None-Match: " + '"x",' * 4000,), b"", 200),
        ("GET /views/per_page/rows", (b"Accept: ;;;q=\xff,,/,*",), b"", 406),
        ("GET /views/per_page/rows?limit=" + "9" * 5000, (), b"", 400),
        ("GET /views/per_page/rows?from=0001-01-01T00:00:00%2B14:00", (), b"", 400),
        ("POST /sql", (JSON,), STATEMENT, 200),
        ("POST /sql", (JSON, "Expect: 100-continue"), STATEMENT, 100),
        ("POST /sql", (JSON,), b'{"statement": "SELECT 1", "statement": "SELECT 2"}', 400),
        ("POST /sql", (JSON, "Content-Encoding: gzip"), gzip.compress(STATEMENT, mtime=0), 400),
        ("POST /sql", (JSON, "Content-Length: 2, 2"), b"{}", 400),
        ("POST /sql", (JSON, "Content-Length: 9223372036854775807"), b"{}", 413),
        ("POST /sql", (JSON, "Content-Length: -2"), b"{}", 400),
        ("POST /sql", (JSON, CHUNKED, "Content-Length: 4"), b"0\r\n\r\n", 400),
        ("POST /sql", (JSON, CHUNKED), b"1e\r\n" + STATEMENT + b"\r\n0\r\nHost: evil\r\nAuthorization: x\r\n\r\n", 200),
        ("POST /sql", (JSON,), b"[" * 100_000, 400),
        (LOOKUP, (JSON,), b'{"keys": [{"page": NaN}]}', 400),
        (LOOKUP, (JSON,), b'{"keys": [{"page": ' + b"9" * 100_000 + b"}]}", 400),
        ("POST /sources/hits/events", (JSON,), b'{"moment": ' + b"[" * 200_000, 422),
        ("POST /sources/hits/events", (JSON, "Content-Encoding: gzip"), gzip.compress(bytes(10**7), mtime=0), 413),
        ("POST /sources/hits/events", ("Content-Type: application/x-ndjson",), b"\n" * 10**6, 400),
    ],
    ids=lambda given: str(given)[:40],
)
def test_each_pipelined_request_has_its_answer(
    served: Served, address: str, secret: str, *, what: str | bytes, headers: tuple[str | bytes, ...], body: bytes, status: int
) -> None:
    if isinstance(what, str):
        what = what.replace("SECRET", secret)
    content = request(what, secret, *headers, body=body)
    if b"Authorization: none" in content:
        content = content.replace(f"Authorization: Bearer {secret}\r\n".encode(), b"")
    answer = sent(address, content)
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer
    assert not [line for line in served.lines if line["event"] == "a request failed"]


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_half_a_request_gets_no_answer(served: Served, address: str, secret: str, version: str) -> None:
    whole = request("POST /sql", secret, JSON, "Content-Length: 1000", body=b"{", version=version)
    assert sent(address, whole, ends=True) == b""
    assert not [line for line in served.lines if line["event"] == "a request failed"]
