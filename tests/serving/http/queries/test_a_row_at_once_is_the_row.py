"""A row from the fast path has the bytes and the tag of the usual path."""

from collections.abc import Iterator
from typing import Any

import pytest

from tandem.serving.http.answers.cache import AnswerCache
from tests.serving.http.queries.test_a_snapshot_stays_as_it_is import WITH_QUANTILES
from tests.serving.http.served import Asker, Served
from tests.serving.world import unusual_pages

NOON = "window=2026-11-01T12:00"
SAME = "layer=merged"
"""What is counted anyway; who says so goes the usual way."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(unusual_pages(tmp_path_factory.mktemp("world"), WITH_QUANTILES))


@pytest.fixture(scope="module")
def asker(served: Served) -> Iterator[Asker]:
    with served.asker() as found:
        for view in ("per_page", "ever", "inverse"):
            assert found.get(f"/views/{view}/rows").status_code == 200  # from now on they are in memory
        yield found


def said(asker: Asker, path: str) -> tuple[Any, ...]:
    answer = asker.get(path)
    headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
    return answer.status_code, answer.content, headers


@pytest.mark.parametrize(
    "path",
    [
        f"/views/per_page/row?key.page=/a&{NOON}",
        f"/views/per_page/row?key.page=%C3%A9%20%26%3D&{NOON}&measures=n,typical",
        f"/views/per_page/row?key.page=&{NOON}",
        f"/views/per_page/row?null=page&{NOON}&measures=mean",
        f"/views/per_page/row?key.page=/never&{NOON}",
        "/views/per_page/row?key.page=/a&window=2026-11-01T12:01",
        "/views/ever/row?",
        "/views/inverse/row?key.odd=true",
        "/views/inverse/row?key.odd=7",
        "/views/per_page/row?key.page=/a",
        f"/views/per_page/row?{NOON}",
        f"/views/per_page/row?key.page=/a&{NOON}&measures=m",
        "/views/never/row?key.page=/a",
    ],
)
def test_both_paths_give_the_same_bytes(asker: Asker, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    usual = said(asker, f"{path}&{SAME}")
    with monkeypatch.context() as patch:
        if usual[0] == 200:
            patch.delattr(AnswerCache, "answer")  # nothing but the other way is left
        assert said(asker, path) == usual
    if usual[0] == 200:
        entity = usual[2]["etag"]
        assert asker.get(path, headers={"If-None-Match": entity}).status_code == 304


def test_a_restricted_caller_sees_only_permitted_rows(served: Served, asker: Asker) -> None:
    del asker  # it has the views in memory
    with served.asker(served.token("bound", rows=["page=/a"])) as bound:
        assert bound.get("/views/per_page/rows").status_code == 200
        for path in (f"key.page=/a&{NOON}", f"key.page=&{NOON}", f"null=page&{NOON}"):
            answer = said(bound, f"/views/per_page/row?{path}")
            assert answer == said(bound, f"/views/per_page/row?{path}&{SAME}")
            assert b'"row":null' not in answer[1]
            assert (answer[0] == 403) == ("/a" not in path)
            assert (b'"rejected":null' in answer[1]) == ("/a" in path)
        assert said(bound, "/views/ever/row?")[0] == 404


def test_a_view_that_is_not_in_memory_takes_the_usual_path(served: Served) -> None:
    other = Served(served.world)
    other.server.lane.cache.store.memory = 1
    with other.asker() as asker:
        answer = asker.get(f"/views/per_page/row?key.page=/a&{NOON}").json()
        assert answer["row"]["n"] == 6
