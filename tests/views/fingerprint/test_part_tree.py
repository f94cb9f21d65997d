"""Laws of meanings: hash, equality and differences agree on every pair of trees."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tandem.views.fingerprint.part_tree import Meaning, differences, digest
from tests.samples import share

NAMES = st.sampled_from("ab")
VALUES: st.SearchStrategy[Any] = st.one_of(st.none(), st.booleans(), st.integers(0, 2), NAMES, st.lists(NAMES, max_size=2))


@st.composite
def meanings(draw: st.DrawFn, depth: int = 2) -> Meaning:
    """Small trees from few words, so that two of them are often equal, or nearly."""
    parts = draw(st.dictionaries(NAMES, meanings(depth - 1), max_size=2)) if depth else {}
    return Meaning(
        name=draw(NAMES),
        value=draw(VALUES),
        text=draw(st.sampled_from(["", "x", "y"])),
        parts=parts,
        order=draw(st.sampled_from([(), tuple(parts)])),
        notes=draw(st.dictionaries(NAMES, NAMES, max_size=1)),
    )


@st.composite
def neighbours(draw: st.DrawFn, before: Meaning) -> Meaning:
    """The same tree but for the order of parts here and there, or another one."""
    if not draw(st.integers(0, 2)):
        return draw(meanings())
    keys = draw(st.permutations([*before.parts]))
    parts = {key: draw(neighbours(before.parts[key])) if draw(st.booleans()) else before.parts[key] for key in keys}
    return replace(before, parts=parts, order=draw(st.sampled_from([before.order, (), tuple(keys)])))


@given(st.data())
def test_what_counts_is_told_and_what_is_told_counts(data: st.DataObject) -> None:
    """By hash, by equality, and by the differences that are not only written otherwise."""
    before = data.draw(meanings())
    after = data.draw(neighbours(before))
    counted = [each for each in differences(before, after) if each.how != "rewritten"]
    assert (before == after) is (digest(before) == digest(after)) is (not counted)
    assert all(each.words for each in counted)


@share(5)
@given(meanings())
def test_a_tree_does_not_differ_from_itself(tree: Meaning) -> None:
    assert not list(differences(tree, tree))


def test_a_part_that_became_another_is_told_as_a_whole() -> None:
    code = {"code": Meaning("function f in a.py:1", "...")}
    found = list(differences(Meaning("decoder", "f", "function f", code), Meaning("decoder", "json", "json")))
    assert [each.words for each in found] == ["decoder: function f -> json"]


def test_what_reads_the_same_but_is_not_the_same_has_changed() -> None:
    (found,) = differences(Meaning("filter", "A", "a > 0"), Meaning("filter", "a", "a > 0"))
    assert found.words == "filter changed"


def test_long_texts_are_shortened() -> None:
    (found,) = differences(Meaning("filter", 1, "a " * 200), Meaning("filter", 2, "b"))
    assert found.words.startswith("filter: a a ")
    assert found.words.endswith(" ... -> b")
    assert len(found.words) < 200


def test_equal_numbers_of_other_types_differ() -> None:
    assert Meaning("m", value=0) != Meaning("m", value=False)
    assert digest(Meaning("m", value=1)) != digest(Meaning("m", value=1.0))
