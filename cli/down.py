"""`tandem down`: stop what `tandem up` has started for this project, and nothing else."""

from cli import parts
from cli.call import Call, Output
from infra import processes

_SECONDS = 20


def run(call: Call) -> Output:
    """Stop what `up` has started for this project: Airflow and its tasks first, the broker last; `up` finds all data again."""
    state = call.settings().folder
    stopped = []
    if (state / "run").is_dir():
        with processes.starting(state):
            # The broker last: what reads it would only see it vanish.
            for name in reversed(parts.in_order(state)):
                if process := processes.running(state, name):
                    processes.stop(state, process, seconds=_SECONDS)
                    stopped.append({"name": name, "pid": process.pid})
                processes.forget(state, name)
    shown = "\n".join(f"stopped {part['name']} (process {part['pid']})" for part in stopped) or "nothing was running"
    return Output({"stopped": stopped}, shown)
