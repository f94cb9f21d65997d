"""`tandem down`: stop everything that `tandem up` has started for this project, and nothing else."""

from tandem.cli.command.call import Call, Output
from tandem.cli.run import part_processes, supervisor_client
from tandem.infra.process import background

_SECONDS = 20


def run(call: Call) -> Output:
    """Stop everything that `up` started for this project: Airflow and its tasks first, the broker last.

    All data are kept; the next `up` continues with them.
    """
    settings = call.settings()
    state = settings.folder
    stopped = []
    if (state / "run").is_dir():
        with background.starting(state):
            found = [process for process in part_processes.running(settings) if background.alive(process)]
            stopped = [{"name": process.name, "pid": process.pid} for process in reversed(found)]
            supervisor_client.end(settings)
            # Parts that run without a supervisor. The broker stops last, because the others read from it.
            for name in reversed(part_processes.in_order(state)):
                if process := background.recorded(state, name):
                    background.stop(state, process, seconds=_SECONDS)
                background.forget(state, name)
    shown = "\n".join(f"stopped {part['name']} (process {part['pid']})" for part in stopped) or "nothing was running"
    return Output({"stopped": stopped}, shown)
