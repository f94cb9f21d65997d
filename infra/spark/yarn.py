"""What YARN knows of its nodes, and the end of an application, through YARN's client in Spark's JVM."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tandem.views.counted import counted


def room(jvm: Any, new_array: Any) -> str:
    """How many nodes YARN has, and how much memory is free on them; by default YARN does not count cores.

    Raises py4j.protocol.Py4JError if it does not answer.
    """
    state = jvm.org.apache.hadoop.yarn.api.records.NodeState
    running = new_array(state, 1)
    running[0] = state.RUNNING
    with _client(jvm) as client:
        free = [node.getCapability().getMemorySize() - node.getUsed().getMemorySize() for node in client.getNodeReports(running)]
    if not free:
        return "YARN has no nodes"
    return f"YARN has {counted(len(free), 'node')}, with at most {max(free)} MB of free memory on one"


def kill(jvm: Any, application: str) -> None:
    """Remove an application, which would otherwise wait for room without a driver."""
    with _client(jvm) as client:
        client.killApplication(jvm.org.apache.hadoop.yarn.api.records.ApplicationId.fromString(application))


@contextmanager
def _client(jvm: Any) -> Iterator[Any]:
    client = jvm.org.apache.hadoop.yarn.client.api.YarnClient.createYarnClient()
    client.init(jvm.org.apache.hadoop.yarn.conf.YarnConfiguration())
    client.start()
    try:
        yield client
    finally:
        client.stop()
