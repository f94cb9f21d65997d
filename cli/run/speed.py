"""`tandem speed`: the speed layer in the foreground."""

from tandem.cli.command import signals
from tandem.cli.command.call import Call
from tandem.cli.command.command_log import part_log
from tandem.cli.run import part_processes
from tandem.infra import clock
from tandem.infra.process.returned_memory import of_executors, return_freed_memory
from tandem.infra.spark.session import get_or_create_session
from tandem.speed.process import speed_layer
from tandem.speed.source.query import CONF


def run(call: Call) -> None:
    """Fold new events into realtime views until stopped by Ctrl-C, or by `tandem down` if `up` has started it.

    The speed layer runs the published definitions. Before the first publication, the project's definitions become publication
    1.
    """
    return_freed_memory()
    settings = call.settings()
    try:
        with part_log(call, settings, part_processes.SPEED) as log, signals.stopping() as stop:
            speed_layer.run(
                settings,
                project=call.publishable,
                session=lambda: get_or_create_session(
                    settings,
                    part_processes.SPEED,
                    environ=call.environ,
                    conf={**CONF, **of_executors()},
                    cores=settings.speed.cores_max,
                    debug=call.debug,
                ),
                stop=stop,
                now=clock.now,
                say=log.info,
                warn=log.warning,
                ready=lambda: part_processes.announce(settings.folder, part_processes.SPEED),
            )
    finally:
        part_processes.withdraw(settings.folder, part_processes.SPEED)
