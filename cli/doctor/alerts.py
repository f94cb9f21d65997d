"""The check of alerts: whether each one of definitions.py is followed, and reaches its receivers."""

from collections.abc import Iterator
from typing import Final

from tandem.cli.doctor.check import Check, FailedCheck, Finding, ok
from tandem.cli.doctor.subject import Subject
from tandem.cli.run import part_processes
from tandem.infra.process import background
from tandem.ledger.log.positions import distance
from tandem.ledger.publish.publications import Publications
from tandem.serving.memory.changes_token import ChangesToken
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.snapshot import Snapshot, has_view
from tandem.serving.sinks.alerts.book import AlertDocument, load_document
from tandem.serving.sinks.alerts.stands import stands
from tandem.views.alert import Alert
from tandem.views.counted import counted

FAILING: Final = FailedCheck(
    "fail",
    "a receiver does not acknowledge the edges of an alert",
    "remove the named cause; edges are stored, and sent again in their order. `tandem logs sink` shows every attempt",
)
BEHIND: Final = FailedCheck(
    "warn",
    "no process of this state folder runs the alerts, and answers count more than they do",
    "`tandem up` runs all alerts; ignore this where a schedule or another machine runs `tandem alerts run`",
)


def _alerts(subject: Subject) -> Iterator[Finding]:
    alerts, settings = subject.call.definitions().alerts, subject.settings
    if not alerts:
        yield ok("the project has no alerts")
        return
    snapshot = None if Publications(subject.tables).latest() is None else Reader(subject.tables).snapshot()
    runs = background.running(settings.folder, part_processes.SINK) is not None
    addresses = {"alertmanager": settings.alerts.alertmanager, "webhook": settings.alerts.webhook}
    receivers = [receiver for receiver, address in addresses.items() if address]
    for name, alert in alerts.items():
        document = load_document(subject.tables, name)
        if document is None:
            yield ok(f"alert {name} has not taken a step yet") if runs else BEHIND.found(f"alert {name} has never run")
            continue
        standing, lag = stands(name, document), _lag(alert, document, snapshot)
        raised = f"alert {name} is raised for {counted(standing.raised, 'row')}"
        if standing.problem is not None:
            yield FAILING.found(f"{standing.problem}; it is raised for {counted(standing.raised, 'row')}")
        elif lag and not runs:
            yield BEHIND.found(f"{raised}, and {counted(lag, 'offset')} behind answers")
        elif receivers:
            yield ok(f"{raised}; {counted(sum(standing.unsent.values()), 'edge')} wait for {', '.join(receivers)}")
        else:
            yield ok(f"{raised}; edges are stored and listed alone, since the settings `alerts` name no receiver")


def _lag(alert: Alert, document: AlertDocument, snapshot: Snapshot | None) -> int | None:
    """The number of offsets that commits count and the alert's newest stored step does not; None if that is not known."""
    if snapshot is None or document.token is None or not has_view(snapshot.publication, alert.view):
        return None
    tail = snapshot.of(alert.view).tails.get(alert.view.source.name)
    if tail is None or tail.problem is not None:
        return None
    return distance(ChangesToken.parse(document.token).end, tail.committed)


CHECKS: Final = (
    Check(
        "alerts",
        _alerts,
        FailedCheck(
            "fail",
            "the definitions, the publications or what is stored of alerts cannot be read",
            "see `definitions` and `tables`",
        ),
        (FAILING, BEHIND),
        needs=("state",),
    ),
)
