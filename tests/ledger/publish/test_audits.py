"""The history of audits returns the recorded ones, in order, also of one view and measure."""

from dataclasses import replace

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish import audits
from tandem.ledger.publish.audits import Audit, AuditFigures
from tests.ledger.tiny import AT, at

FIGURES = AuditFigures(
    9, 2, 1, 4.5, 0.5, 0.25, 0.0, "duplicate", ({"row": {"s": None}, "served": 1, "found": "1.50", "only": None},)
)
ONE = Audit(AT, 7, 1, 1, "v", "n", at(0, 0), at(3, 4), figures=FIGURES)


def test_recorded_audits_are_read_back(tables: Tables) -> None:
    other = replace(ONE, measure="m", figures=replace(FIGURES, cause="none", examples=()))
    bridged = replace(ONE, view="w", measure="", figures=None, obstacle="bridge")
    audits.record(tables, [ONE, other, bridged])
    audits.record(tables, [])
    audits.record(tables, [replace(ONE, version=8)])
    found = audits.history(tables)
    assert found == [ONE, other, bridged, replace(ONE, version=8)]
    assert found[0].figures is not None
    assert found[0].figures.examples == FIGURES.examples
    assert audits.history(tables, view="v", measure="m") == [other]
    assert audits.history(tables, view="w", measure="m") == [bridged]
