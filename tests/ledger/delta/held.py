"""Tables as a process sees them that holds their leases."""

from dataclasses import replace

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.one_writer import write_leases
from tandem.ledger.delta.one_writer.write_leases import Owner
from tests.ledger.tiny import AT


def held(tables: Tables, *names: str, what: str = "tandem test") -> Tables:
    """The tables with these leases, taken at once from whoever has them; nobody renews them within the hour of a test."""
    owner = Owner(what, "here", 1, AT, place="here")
    return replace(
        tables,
        leases={name: write_leases.take(tables, name, owner, patience=0, say=print, duration_s=3600) for name in names},
    )
