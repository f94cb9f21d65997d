"""`tandem speed`: the speed layer in the foreground."""

from datetime import UTC, datetime

from cli import parts, signals
from cli.call import Call
from cli.part_log import part_log
from infra import spark
from speed import layer
from speed.query import CONF


def run(call: Call) -> None:
    """Fold new events into realtime views until stopped by Ctrl-C, or by `tandem down` if `up` has started it.

    The speed layer runs the published definitions. Before the first publication, the project's definitions become publication
    1.
    """
    settings = call.settings()
    try:
        with part_log(call, settings, parts.SPEED) as log, signals.stopping() as stop:
            layer.run(
                settings,
                project=call.publishable,
                session=lambda: spark.session(settings, parts.SPEED, environ=call.environ, conf=CONF, debug=call.debug),
                stop=stop,
                now=lambda: datetime.now(UTC),
                say=log.info,
                warn=log.warning,
                ready=lambda: parts.announce(settings.folder, parts.SPEED),
            )
    finally:
        parts.withdraw(settings.folder, parts.SPEED)
