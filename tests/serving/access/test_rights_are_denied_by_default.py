"""What nobody was given nobody has: verbs, views and rows, in every way of writing them."""

import pytest

from tandem.serving.access.rights import BadRights, Rights, parse_rights
from tests.serving.world import World


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory):
    return World(tmp_path_factory.mktemp("world")).project.views


def test_rights_apply_to_the_views_that_they_name(views) -> None:
    assert Rights().verbs == frozenset()
    some = Rights.of(may=["read"], views=["ever"])
    assert some.bound(views["ever"]) == {}
    assert some.bound(views["per_page"]) is None
    assert Rights.of(may=["read"]).bound(views["per_page"]) == {}


def test_a_view_without_the_key_of_a_rule_shows_nothing(views) -> None:
    bound = Rights.of(may=["read"], rows=["page=/a"])
    found = bound.bound(views["per_page"])
    assert found is not None
    assert {name: value.as_py() for name, value in found.items()} == {"page": "/a"}
    assert bound.bound(views["ever"]) is None
    assert bound.bound(views["inverse"]) is None
    null = Rights.of(may=["read"], rows=["page"]).bound(views["per_page"])
    assert null is not None
    assert not null["page"].is_valid


def test_a_rule_whose_value_a_key_cannot_have_shows_nothing(views) -> None:
    assert Rights.of(may=["read"], rows=["odd=perhaps"]).bound(views["inverse"]) is None


def test_settings_give_rights() -> None:
    assert parse_rights(["read", "view:a", "sql", "view:b", "row:city=OSLO"]) == Rights.of(
        may=["read", "sql"], views=["a", "b"], rows=["city=OSLO"]
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "without a verb"),
        (["view:a"], "without a verb"),
        (["reed"], "'reed'; use read"),
        (["read", "rows:a=b"], "unknown right 'rows:a=b'"),
        (["read", "row:a=b", "row:a=c"], "name each key once"),
        (["read", "row:=b"], "name each key once"),
        (["ingest", "row:a=b"], "cannot include ingest"),
    ],
)
def test_contradictory_rights_are_refused(words: list[str], sentence: str) -> None:
    with pytest.raises(BadRights, match=sentence):
        parse_rights(words)
