"""`tandem metrics`: figures for Prometheus, printed once or served on loopback."""

from collections.abc import Iterator
from threading import Event
from typing import Annotated

import typer
from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from structlog.typing import FilteringBoundLogger

from tandem.cli.command import signals
from tandem.cli.command.call import Call, Output
from tandem.cli.command.command_log import part_log
from tandem.cli.metrics import samples
from tandem.cli.metrics.families import FAMILIES, SCRAPE_SUCCESS
from tandem.infra import clock
from tandem.views.errors import TandemError

_HOST = "127.0.0.1"


class MetricsPortTaken(TandemError, code="metrics-port-taken"):
    """Another program listens on the port."""


def run(
    call: Call,
    *,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Serve on this port of 127.0.0.1 until Ctrl-C, instead of printing once.")
    ] = None,
) -> Output | None:
    """Print the project's metrics in Prometheus's text format, or serve them.

    The metrics are the figures of `status` and `audit`, plus durations of runs and sizes of tables; docs/metrics.md lists
    them. Every scrape reads the tables, so the values are right whichever processes started or ended. If the tables or the
    project cannot be read, the command fails; with --port the page has `tandem_scrape_success` 0 alone.
    """
    registry = CollectorRegistry()
    if port is None:
        registry.register(_Project(call))
        text = generate_latest(registry).decode()
        return Output({"metrics": text}, text.rstrip("\n"))
    with part_log(call, call.settings(), "metrics") as log, signals.stopping() as stop:
        registry.register(_Project(call, log))
        _serve(registry, port, stop, log)
    return None


def _serve(registry: CollectorRegistry, port: int, stop: Event, log: FilteringBoundLogger) -> None:
    try:
        server, thread = start_http_server(port, _HOST, registry)
    except OSError as error:
        raise MetricsPortTaken(f"cannot listen on port {port} of {_HOST}: {error.strerror}; choose another --port") from error
    log.info("serving", url=f"http://{_HOST}:{port}/metrics")
    stop.wait()
    server.shutdown()
    server.server_close()
    thread.join()


class _Project(Collector):
    """All families of one project, computed at each scrape. Raises the error of a failed scrape, or logs it if there is a log."""

    def __init__(self, call: Call, log: FilteringBoundLogger | None = None) -> None:
        self._call, self._log = call, log

    def describe(self) -> list[Metric]:
        """Nothing, because otherwise the registry would read the project only to learn the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The families of one scrape."""
        try:
            found = samples.look(self._call, now=clock.now())
        except TandemError as error:
            if self._log is None:
                raise
            self._log.error(str(error))
            yield SCRAPE_SUCCESS.of([((), 0)])
            return
        yield from (family.metric(found) for family in FAMILIES)
