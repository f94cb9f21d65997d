"""`bench decode` reads the same events in every format, and sets two checkouts beside each other."""

from dataclasses import replace

import pytest

from tandem.bench.decode import measuring, trial
from tandem.bench.decode.measuring import DecodeScale
from tandem.infra.folders import ROOT
from tandem.views.errors import TandemError

FEW = DecodeScale(events=50, rounds=1)


def test_formats_of_one_event_type_read_the_same_events() -> None:
    digests: dict[str, set[str]] = {}
    for name, made in trial.FORMATS.items():
        figures = trial.run(name, 50)
        assert figures["rejects"] == 0, name
        digests.setdefault(made()[0].__name__, set()).add(figures["digest"])
    assert {event: len(different) for event, different in digests.items()} == dict.fromkeys(digests, 1)


@pytest.mark.slow
def test_a_checkout_beside_reads_the_same_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "FORMATS", {"json": trial.FORMATS["json"]})
    (only,) = measuring.measure(FEW, ROOT)
    assert only.right
    assert only.ratio is not None
    assert only.ratio.value > 0
    document = measuring.document([only, replace(only, name="slow", ratio=replace(only.ratio, value=0.9))])
    assert document["right"]
    assert "slow" in document["slower"]
    assert measuring.table([only]).row_count == 1


def test_a_format_that_reads_other_events_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "FORMATS", dict.fromkeys(("json", "other"), trial.FORMATS["json"]))
    # One of two formats of an event type is told to read one event fewer.
    monkeypatch.setattr(measuring, "_run", lambda _, name, events: trial.run("json", events - (name == "other")))
    assert [each.right for each in measuring.measure(FEW, None)] == [True, False]


def test_a_checkout_that_cannot_decode_is_named() -> None:
    with pytest.raises(TandemError, match=r"the checkout .*/docs cannot decode json: ModuleNotFoundError"):
        list(measuring.measure(FEW, ROOT / "docs"))
