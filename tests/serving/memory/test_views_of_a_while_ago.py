"""What a server keeps of the views that it sent to clients of changes."""

from typing import cast

from tandem.serving.memory.cached_view import CachedView, Recent


def view(name: str) -> CachedView:
    return cast("CachedView", name)


def test_each_is_kept_for_a_while_after_it_was_put_last() -> None:
    now = 0.0
    recent = Recent(seconds=10, clock=lambda: now)
    recent.put("a", view("one"))
    recent.put("b", view("two"))
    now = 8
    recent.put("a", view("three"))
    now = 11
    assert (recent.get("a"), recent.get("b")) == ("three", None)
    now = 18
    assert recent.get("a") == "three"
    now = 19
    assert recent.get("a") is None


def test_there_are_never_more_than_a_few_thousand() -> None:
    recent = Recent()
    for number in range(5_000):
        recent.put(str(number), view(str(number)))
    assert (recent.get("0"), recent.get("4999")) == (None, "4999")
