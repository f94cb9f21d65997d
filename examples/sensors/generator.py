"""Sample messages of temperature sensors, and the expected answers of every view of this example.

`generate` yields samples (key, value, facts): a record's key, which is the sensor, its value, and the facts of a well-formed
record, None for a malformed one. `Truth` sums up facts in plain Python and imports nothing of the platform.
"""

import re
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from random import Random
from typing import Any, NamedTuple, TypeVar

from examples.traffic import HOUR, MINUTE, broken, event_times, zipf
from examples.truth import EPOCH, bounds, place_of, window, written_decimal, written_time

SOURCE = "messages"

SENSORS = 120
RELAYED = 16
KINDS = ("reading", "calibrated", "shift_end")
MARKERS = 0.03
SHUFFLED = 400
RECENT = 500

SIZE, EVERY = 30 * MINUTE, 10 * MINUTE
EDGES = (-100, 0, 100, 200, 300)
INTERVALS = ("<-10", "-10", "0", "10", "20", "30")
MOVED = 15

Item = TypeVar("Item")


class Message(NamedTuple):
    """The facts of one well-formed record. A copy repeats an identity that was sent before, and does not count."""

    at: int
    sensor: str
    number: int
    kind: str
    tenths: int | None
    battery: int
    copy: bool = False


Sample = tuple[bytes | None, bytes, Message | None]

# Each takes a good value and breaks it in its own way.
BREAKS = (
    lambda _: b"",
    lambda _: b"sensor-1 20.5",
    lambda good: good[:-1],
    lambda good: good + good,
    lambda good: b"[" + good + b"]",
    lambda good: good.replace(b'"sensor":"', b'"sensor":"\xff'),
    lambda good: good.replace(b'"battery"', b'"charge"'),
    lambda good: re.sub(rb'"celsius":[^,]+', b'"celsius":"warm"', good),
    lambda good: re.sub(rb'"celsius":[^,]+', b'"celsius":20.55', good),
    lambda good: re.sub(rb'"celsius":[^,]+', b'"celsius":NaN', good),
    lambda good: re.sub(rb'"kind":"[^"]+"', b'"kind":"rumour"', good),
    lambda good: re.sub(rb'"number":\d+', b'"number":9223372036854775808', good),
    lambda good: re.sub(rb'"battery":\d+', b'"battery":"full"', good),
    lambda good: good.replace(b'Z","kind"', b'","kind"'),
    lambda good: re.sub(rb'"time":"[0-9]{4}', b'"time":"1969', good),
)


def generate(seed: int, n: int, *, base: datetime, per_second: float = 20.0, duplicates: float = 0.0) -> Iterator[Sample]:
    """The first `n` samples of `seed`: the same ones for the same seed, base and shares, whatever `n` is.

    `base` is the first event time and `per_second` the mean number of events in a second of event time. Besides the late events
    of all examples, every sixteenth sensor is behind a relay that is two to five hours late, and every 400 messages are
    shuffled. `duplicates` is the share of records that repeat one of the 500 before them, with the same identity and event time;
    every tenth of those differs in content.
    """
    if base.tzinfo is None:
        raise ValueError(f"base {base} has no time zone")
    times = event_times(Random(f"{seed} times"), (base - EPOCH) // timedelta(microseconds=1), per_second)
    breaks = broken(Random(f"{seed} breaks"), len(BREAKS))
    repeat = Random(f"{seed} repeats")
    recent: deque[tuple[bytes, Message]] = deque(maxlen=RECENT)
    fresh = _shuffled(Random(f"{seed} order"), _messages(seed, times))
    for _ in range(n):
        if duplicates and recent and repeat.random() < duplicates:
            value, facts = repeat.choice(recent)
            if repeat.random() < 0.1:
                value = value.replace(b'"battery":', b'"battery":1')
            yield facts.sensor.encode(), value, facts._replace(copy=True)
            continue
        facts = next(fresh)
        key, value = facts.sensor.encode(), _value(facts)
        kind = next(breaks)
        if kind is not None:
            yield key, BREAKS[kind](value), None
            continue
        if duplicates:
            recent.append((value, facts))
        yield key, value, facts


def _messages(seed: int, times: Iterator[int]) -> Iterator[Message]:
    """Endless messages in the order of sending; a sensor's temperature wanders."""
    random = Random(f"{seed} sensors")
    sensors = zipf(Random(f"{seed} names"), range(SENSORS), 0.5)
    numbers = [0] * SENSORS
    tenths = [random.randrange(-150, 350) for _ in range(SENSORS)]
    for at, sensor in zip(times, sensors, strict=False):
        numbers[sensor] += 1
        tenths[sensor] += random.randint(-4, 4)
        marker = random.random() < MARKERS
        yield Message(
            at=at - (2 + sensor % 4) * HOUR if sensor % RELAYED == 0 else at,
            sensor=f"sensor-{sensor}",
            number=numbers[sensor],
            kind=random.choice(KINDS[1:]) if marker else KINDS[0],
            tenths=None if marker else tenths[sensor],
            battery=100 - numbers[sensor] % 98,
        )


def _shuffled(random: Random, items: Iterator[Item]) -> Iterator[Item]:
    """The endless items, shuffled in groups of SHUFFLED."""
    while True:
        block = list(islice(items, SHUFFLED))
        random.shuffle(block)
        yield from block


def _value(facts: Message) -> bytes:
    celsius = written_decimal(facts.tenths, 1) or "null"
    return (
        f'{{"sensor":"{facts.sensor}","number":{facts.number},"time":"{written_time(facts.at)}","kind":"{facts.kind}",'
        f'"celsius":{celsius},"battery":{facts.battery}}}'
    ).encode()


class Truth:
    """The expected answers of every view of this example for the facts added so far, in the order of sending."""

    def __init__(self, topic_id: str, partitions: int) -> None:
        self._topic = (topic_id, partitions)
        self._hops: defaultdict[tuple[int, str], list[Message]] = defaultdict(list)
        self._hours: defaultdict[int, list[Message]] = defaultdict(list)
        self._sensors: defaultdict[str, list[Message]] = defaultdict(list)

    def add(self, facts: Message) -> None:
        """Count one well-formed record, unless it is a copy."""
        if facts.copy:
            return
        last = facts.at // EVERY
        for hop in range(last - SIZE // EVERY + 1, last + 1):
            self._hops[hop, facts.sensor].append(facts)
        self._hours[facts.at // HOUR].append(facts)
        self._sensors[facts.sensor].append(facts)

    def manifest(self) -> dict[str, list[dict[str, Any]]]:
        """The rows by view name as `tandem query --json` prints them: exact measures only, in any order."""
        return {
            "climate": [
                {"sensor": sensor, **bounds(hop * EVERY, hop * EVERY + SIZE), "messages": len(messages)}
                | {"mean_celsius": _mean(messages), "coldest": _extreme(min, messages), "warmest": _extreme(max, messages)}
                for (hop, sensor), messages in self._hops.items()
            ],
            "temperatures": [
                {**window(hour, HOUR), "celsius": _histogram(messages)}
                | {"readings": len(_readings(messages)), "low_battery": any(message.battery < 10 for message in messages)}
                for hour, messages in self._hours.items()
            ],
            "recent": [
                {**self._in_order(messages), "readings": len(messages), "mean_celsius": _mean(messages)}
                | {"battery": min(message.battery for message in messages)}
                for messages in (_readings(messages)[-5:] for messages in self._sensors.values())
                if messages
            ],
            "moves": [
                {**self._in_order(messages), "window_number": number, "messages": len(messages)}
                | {"coldest": _extreme(min, messages), "warmest": _extreme(max, messages)}
                for sensor in self._sensors.values()
                for number, messages in enumerate(_moves(sensor))
            ],
            "shifts": [
                {**self._in_order(messages), "window_number": number, "messages": len(messages)}
                | {"calibrations": sum(message.kind == "calibrated" for message in messages)}
                | {"mean_celsius": _mean(messages), "warmest": _extreme(max, messages)}
                for sensor in self._sensors.values()
                for number, messages in enumerate(_shifts(sensor))
            ],
        }

    def _in_order(self, messages: list[Message]) -> dict[str, Any]:
        """The columns of a window of one sensor in an answer in the order of the log."""
        sensor, times = messages[0].sensor, [message.at for message in messages]
        return {"sensor": sensor, **bounds(min(times), max(times)), **place_of(sensor.encode(), *self._topic)._asdict()}


def _readings(messages: list[Message]) -> list[Message]:
    return [message for message in messages if message.kind == "reading"]


def _tenths(messages: list[Message]) -> list[int]:
    return [message.tenths for message in messages if message.tenths is not None]


def _mean(messages: list[Message]) -> float | None:
    tenths = _tenths(messages)
    return sum(tenths) / (10 * len(tenths)) if tenths else None


def _extreme(which: Callable[[Iterable[int]], int], messages: list[Message]) -> str | None:
    tenths = _tenths(messages)
    return written_decimal(which(tenths), 1) if tenths else None


def _histogram(messages: list[Message]) -> dict[str, int]:
    counts = [0] * len(INTERVALS)
    for tenths in _tenths(messages):
        counts[bisect_right(EDGES, tenths)] += 1
    return dict(zip(INTERVALS, counts, strict=True))


def _moves(messages: list[Message]) -> Iterator[list[Message]]:
    """Cut before a temperature that is 1.5 degrees or more from the first one."""
    held: list[Message] = []
    first: int | None = None
    for message in messages:
        if message.tenths is not None and first is not None and abs(message.tenths - first) >= MOVED:
            yield held
            held, first = [], None
        held.append(message)
        first = message.tenths if first is None else first
    yield held


def _shifts(messages: list[Message]) -> Iterator[list[Message]]:
    """Cut after a shift's end."""
    held: list[Message] = []
    for message in messages:
        held.append(message)
        if message.kind == "shift_end":
            yield held
            held = []
    if held:
        yield held
