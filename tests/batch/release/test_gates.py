"""A gate opens if its conditions hold; otherwise its error names the view and the figure."""

import pytest

from tandem.batch.release.gates import BadGate, PromotionGate, Shut, parse, refuse_shut
from tandem.ledger.publish.diffs import ReleaseDiff
from tests.ledger.tiny import AT

VIEW = {
    "status": "changed",
    "matched": 80,
    "changed": 4,
    "only_old": 15,
    "only_new": 5,
    "measures": {"n": {"max_error": 0.5, "mean_error": 0.01}, "total": {"max_error": 0.1, "mean_error": 0.02}},
}


def diff(**views: object) -> ReleaseDiff:
    return ReleaseDiff(AT, 2, 1, views)  # type: ignore[arg-type]


def test_a_gate_is_a_list_of_conditions() -> None:
    assert parse("changed_keys < 1%, max_error<=0.05") == (
        PromotionGate("changed_keys", "<", 0.01),
        PromotionGate("max_error", "<=", 0.05),
    )


@pytest.mark.parametrize(
    ("gate", "sentence"),
    [
        ("", "''; example: 'changed_keys < 1%'"),
        ("changed_keys > 1%", "invalid condition 'changed_keys > 1%'"),
        ("changed_keys < 1%,", "invalid condition ''"),
        ("changed_key < 1%", "unknown figure 'changed_key'; figures: changed_keys"),
        ("max_error < -1", "invalid condition 'max_error < -1'"),
        ("max_error < 1 or True", "invalid condition"),
    ],
)
def test_an_invalid_gate_is_refused(gate: str, sentence: str) -> None:
    with pytest.raises(BadGate) as error:
        parse(gate)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("gate", "told"),
    [
        ("changed_keys <= 5%", None),
        ("changed_keys < 5%", "changed_keys 5.0000%, but the gate requires changed_keys < 5.0000%"),
        ("only_old <= 15%, only_new <= 5%", None),
        ("only_old < 15%", "only_old 15.0000%"),
        ("only_new < 5%", "only_new 5.0000%"),
        ("max_error <= 0.5", None),
        ("max_error < 50%", "max_error 50.0000%"),
        ("mean_error <= 2%", None),
        ("changed_keys < 10%, mean_error < 2%", "mean_error 2.0000%"),
    ],
)
def test_a_figure_beyond_its_bound_closes_the_gate(gate: str, told: str | None) -> None:
    found = diff(same={"status": "unchanged"}, added={"status": "added"}, v=VIEW)
    if told is None:
        refuse_shut(parse(gate), found)
        return
    with pytest.raises(Shut) as error:
        refuse_shut(parse(gate), found)
    assert f"view 'v' has {told}" in str(error.value)


def test_a_release_that_was_not_compared_does_not_pass() -> None:
    nothing = {**VIEW, "matched": 0, "changed": 0, "only_old": 0, "only_new": 0, "measures": {}}
    with pytest.raises(Shut, match="view 'v' has no rows below the cut to compare; run `tandem recompute` first"):
        refuse_shut(parse("changed_keys < 100%"), diff(v=nothing))
    with pytest.raises(Shut, match="was never compared"):
        refuse_shut(parse("changed_keys < 100%"), None)
