"""For any number of micro-batches, a source has one log event per period, and the sums contain all of them."""

from structlog.contextvars import get_contextvars

from tandem.speed.process.speed_layer import Telling
from tandem.speed.progress import MicroBatchSeconds


def test_sums_are_logged_at_most_once_per_period() -> None:
    said: list[tuple[str, dict[str, object]]] = []
    now = [0.0]
    telling = Telling(lambda text: said.append((text, get_contextvars())), every_s=60, clock=lambda: now[0])
    for second in range(0, 121, 20):
        now[0] = float(second)
        telling.add(MicroBatchSeconds(1, "hits", 10, 0.5))
    telling.add(MicroBatchSeconds(2, "hits", 7, 0.25))
    about = {"release": 1, "source": "hits"}
    assert said == [
        ("folding records", about | {"micro_batches": 1, "records": 10, "seconds": 0.5}),
        ("folding records", about | {"micro_batches": 3, "records": 30, "seconds": 1.5}),
        ("folding records", about | {"micro_batches": 3, "records": 30, "seconds": 1.5}),
        ("folding records", {"release": 2, "source": "hits", "micro_batches": 1, "records": 7, "seconds": 0.25}),
    ]
    assert get_contextvars() == {}
