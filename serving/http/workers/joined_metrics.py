"""The metrics of all workers as one text: each sample has the label `worker`, but for those that are the same for all."""

from collections.abc import Mapping
from typing import Final

_SAME: Final = ("tandem_part_", "tandem_hot_")
"""Metrics of the parts, which every worker reads from the same files, and of hot tails, whose messages every worker gets."""
_UP: Final = """\
# HELP tandem_worker_up 1 for a process of the server whose metrics are in this text, 0 for a process that does not answer.
# TYPE tandem_worker_up gauge
"""


def joined(own: bytes, number: int, others: Mapping[int, bytes], *, workers: int) -> bytes:
    """The texts of this worker and of those others that answered, in the text format of Prometheus.

    Its samples stand by family, as the format wants it. What is the same for all is the first worker's.
    """
    families: dict[str, tuple[list[str], list[str]]] = {}
    first = min(number, *others)  # of counters always the same worker's, whichever is asked
    for worker, text in sorted({**others, number: own}.items()):
        family = ""
        for line in text.decode().splitlines():
            if line.startswith("#"):
                family = line.split(" ", 3)[2]
                heads, _ = families.setdefault(family, ([], []))
                if line not in heads:
                    heads.append(line)
            elif not family.startswith(_SAME):
                families[family][1].append(_labelled(line, worker))
            elif worker == first:
                families[family][1].append(line)
    lines = [line for heads, samples in families.values() for line in (*heads, *samples)]
    answer = {number, *others}
    up = "".join(f'tandem_worker_up{{worker="{worker}"}} {float(worker in answer)}\n' for worker in range(workers))
    return ("\n".join(lines) + "\n" + _UP + up).encode()


def _labelled(sample: str, worker: int) -> str:
    name, brace, rest = sample.partition("{")
    if brace:
        return f'{name}{{worker="{worker}",{rest}'
    name, _, value = sample.partition(" ")
    return f'{name}{{worker="{worker}"}} {value}'
