"""SQL over HTTP: the rows of the sandbox in every format, of the views that a token may read, at one snapshot."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving.http.served import Asker, Served
from tests.serving.world import forty_hits, hit, position

SUM = "SELECT count(*) AS pages, sum(n) AS n, sum(price) AS price FROM per_page"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(forty_hits(tmp_path_factory.mktemp("world")))


@pytest.fixture(scope="module")
def asker(served: Served) -> Iterator[Asker]:
    with served.asker() as found:
        yield found


def test_rows_have_their_provenance(asker: Asker) -> None:
    answer = asker.post("/sql", json={"statement": SUM})
    assert answer.status_code == 200, answer.text
    document = answer.json()
    assert document["rows"] == [{"pages": 31, "n": 40, "price": "4.00"}]
    assert document["total"] == 1
    told = document["provenance"]
    assert (told["exactness"]["label"], told["publication"], list(told["views"])) == ("exact", 2, ["per_page"])


def test_views_are_joined_and_read_at_one_snapshot(served: Served, asker: Asker) -> None:
    statement = "SELECT (SELECT sum(n) FROM per_page) AS one, (SELECT sum(n) FROM inverse) + 1 AS other, ever.n FROM ever"
    before = asker.post("/sql", json={"statement": statement}).json()["rows"][0]
    served.world.append(0, hit("/new", 5))
    served.world.trigger()
    stands = json.dumps(served.world.end.to_json())
    assert asker.get("/views/ever/rows", params={"min_position": stands}).status_code == 200
    after = asker.post("/sql", json={"statement": statement}).json()["rows"][0]
    assert {name: after[name] - before[name] for name in after} == {"one": 1, "other": 1, "n": 1}


def test_a_statement_waits_until_a_position_is_counted(tmp_path: Path) -> None:
    world = forty_hits(tmp_path)
    served = Served(world, {"wait_s": 1})
    ahead = {"min_position": json.dumps(position(31, 12).to_json())}
    statement = {"statement": "SELECT sum(n) AS n FROM per_page"}
    with served.asker() as asker:
        late = asker.post("/sql", json=statement, params=ahead)
        assert (late.status_code, late.headers["Retry-After"]) == (504, "1")
        assert late.json()["detail"] == "not as fresh as requested within 1 s: 2 offsets below min_position are not counted"
        world.append(1, hit("/new", 5), hit("/new", 6))
        world.trigger()
        assert asker.post("/sql", json=statement, params=ahead).json()["rows"] == [{"n": 42}]
        # A topic that no view counts is never counted.
        other = {"min_position": '{"another": {"0": 1}}'}
        assert asker.post("/sql", json=statement, params=other).status_code == 504
        assert asker.post("/sql", json=statement, params={"min_position": "7"}).status_code == 400


@pytest.mark.parametrize(
    ("statement", "status", "said"),
    [
        ("SELEC 1", 400, "syntax error"),
        ("SELECT 1; SELECT 2", 400, "one SELECT"),
        ("SELECT * FROM never", 404, "never"),
        ("SELECT * FROM read_csv('/etc/passwd')", 400, "read_csv"),
        ("SELECT * FROM range(1000000)", 400, "rows"),
    ],
)
def test_a_refusal_has_its_reason(asker: Asker, statement: str, status: int, said: str) -> None:
    answer = asker.post("/sql", json={"statement": statement})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    assert said in answer.json()["detail"]


def test_a_forbidden_view_looks_absent(served: Served) -> None:
    with served.asker(served.token("narrow", may=("sql",), views=["ever"])) as narrow:
        assert narrow.post("/sql", json={"statement": "SELECT n FROM ever"}).status_code == 200
        answers = [narrow.post("/sql", json={"statement": f"SELECT * FROM {name}"}) for name in ("per_page", "nowhere_")]
        forbidden, absent = ((answer.status_code, answer.json()["detail"]) for answer in answers)
        assert forbidden[0] == absent[0] == 404
        assert forbidden[1].replace("per_page", "nowhere_") == absent[1]
        assert "inverse" not in absent[1]
    with served.asker(served.token("bound", may=("sql", "read"), rows=["page=/01"])) as bound:
        answer = bound.post("/sql", json={"statement": "SELECT n FROM ever"})
        assert (answer.status_code, "restricted to rows" in answer.text) == (403, True)
