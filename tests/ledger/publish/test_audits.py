"""The history of audits returns the recorded ones, in order, also of one view and measure."""

from dataclasses import replace

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.audits import Audit, AuditFigures, Audits
from tests.ledger.tiny import AT, at

FIGURES = AuditFigures(
    9, 2, 1, 4.5, 0.5, 0.25, 0.0, "duplicate", ({"row": {"s": None}, "served": 1, "found": "1.50", "only": None},)
)
ONE = Audit(AT, 7, 1, 1, "v", "n", at(0, 0), at(3, 4), figures=FIGURES)


def test_recorded_audits_are_read_back(tables: Tables) -> None:
    other = replace(ONE, measure="m", figures=replace(FIGURES, cause="none", examples=()))
    bridged = replace(ONE, view="w", measure="", figures=None, obstacle="bridge")
    Audits(tables).record([ONE, other, bridged])
    Audits(tables).record([])
    Audits(tables).record([replace(ONE, version=8)])
    found = Audits(tables).history()
    assert found == [ONE, other, bridged, replace(ONE, version=8)]
    assert found[0].figures is not None
    assert found[0].figures.examples == FIGURES.examples
    assert Audits(tables).history(view="v", measure="m") == [other]
    assert Audits(tables).history(view="w", measure="m") == [bridged]
