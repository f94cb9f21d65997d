"""The sensors' definitions on messages few enough to count by hand; runs without Java or Kafka."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Literal

from definitions import Message, climate, moves, recent, shifts, temperatures

from tandem.testing import answer


def message(
    number: int,
    celsius: str | None = "20.0",
    *,
    minute: int = 0,
    sensor: str = "a",
    kind: Literal["reading", "calibrated", "shift_end"] = "reading",
    battery: int = 90,
) -> Message:
    return Message(
        sensor=sensor,
        number=number,
        time=datetime(2026, 11, 1, 8, minute, tzinfo=UTC),
        kind=kind,
        celsius=None if celsius is None else Decimal(celsius),
        battery=battery,
    )


def test_a_reading_is_in_three_half_hours() -> None:
    rows = answer(climate, [message(1, "20.5", minute=9), message(2, "-0.5", minute=10)])
    assert [(row["window_start"][11:16], row["messages"], row["mean_celsius"]) for row in rows] == [
        ("07:40", 1, 20.5),
        ("07:50", 2, 10.0),
        ("08:00", 2, 10.0),
        ("08:10", 1, -0.5),
    ]
    assert (rows[1]["coldest"], rows[1]["warmest"]) == ("-0.5", "20.5")


def test_temperatures_are_counted_between_edges() -> None:
    (row,) = answer(temperatures, [message(1, "-10.1"), message(2, "-10.0"), message(3, "30.0", battery=9), message(4, "29.9")])
    assert row["celsius"] == {"<-10": 1, "-10": 1, "0": 0, "10": 0, "20": 1, "30": 1}
    assert (row["readings"], row["low_battery"]) == (4, True)


def test_the_last_five_readings_are_those_that_arrived_last() -> None:
    late = [message(number, minute=30 - number, battery=number) for number in range(1, 8)]
    (row,) = answer(recent, [*late, message(8, None, kind="calibrated")])
    assert (row["readings"], row["battery"], row["window_end"]) == (5, 3, "2026-11-01T08:27:00Z")


def test_a_window_begins_when_the_temperature_has_moved() -> None:
    readings = [
        message(1, "20.0"),
        message(2, "21.4"),
        message(3, None, kind="calibrated"),
        message(4, "18.5"),
        message(5, "19.9"),
    ]
    rows = answer(moves, readings)
    assert [(row["window_number"], row["messages"], row["coldest"], row["warmest"]) for row in rows] == [
        (0, 3, "20.0", "21.4"),
        (1, 2, "18.5", "19.9"),
    ]


def test_a_shift_ends_with_its_marker() -> None:
    rows = answer(
        shifts,
        [message(1), message(2, None, kind="calibrated"), message(3, None, kind="shift_end"), message(4), message(1, sensor="b")],
    )
    assert [(row["sensor"], row["window_number"], row["messages"], row["calibrations"]) for row in rows] == [
        ("a", 0, 3, 1),
        ("a", 1, 1, 0),
        ("b", 0, 1, 0),
    ]
