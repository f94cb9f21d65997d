"""The state of a part follows only from its signs and a clock: faults are red, working parts are not."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.serving.status.part_state import (
    BEHIND,
    BROKER,
    GONE,
    SILENT,
    SPEED,
    STATES,
    Beat,
    Failure,
    FollowLoop,
    PartState,
    Signs,
    StuckBounds,
    state_of,
)

NOW: Final = datetime(2026, 11, 1, 12, tzinfo=UTC)
BOUNDS: Final = StuckBounds(stuck=timedelta(seconds=60), ready=timedelta(seconds=300))


def decided(signs: Signs, now: datetime = NOW) -> PartState:
    return state_of(signs, now=now, bounds=BOUNDS)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def loop(looked: float | None = 1, *, moved: float | None = None, waits: str = "", source: str = "hits") -> FollowLoop:
    """Return a loop that last looked at its log `looked` seconds ago, or that began 20 seconds ago and has not looked yet."""
    since = moved if moved is not None else 20 if looked is None else looked
    return FollowLoop(source, ago(since), None if looked is None else ago(looked), waits)


def beat(*loops: FollowLoop, at: float = 0.5) -> Beat:
    return Beat(ago(at), loops)


def speed(found: Beat | None, **more: Any) -> Signs:
    return Signs(SPEED, **{"recorded": True, "alive": True, "beat": found, **more})


def failed(seconds: float, *, over: bool = False) -> Failure:
    return Failure(ago(seconds), "it was killed by SIGKILL", "see its log", over)


OK: Final = beat(loop())
CASES: Final = {
    "all is well": (speed(OK), "running", False, None),
    "a quiet log": (speed(beat(loop(2))), "running", False, None),
    "a long micro-batch": (speed(beat(loop(50))), "behind", False, 50),
    "catching up": (speed(OK, uncounted_since=ago(3600)), "behind", False, 3600),
    "records that came just now": (speed(OK, uncounted_since=ago(14)), "running", False, None),
    "one source of two behind": (speed(beat(loop(), loop(40, source="b"))), "behind", False, 40),
    "killed": (speed(beat(loop(9), at=8), alive=False), "dead", True, 8),
    "not found, though it beat just now": (speed(beat(loop(2), at=2.5), alive=False), "running", False, None),
    "in another container": (speed(OK, alive=False, recorded=False), "running", False, None),
    "killed in the foreground": (speed(beat(loop(9), at=8), alive=False, recorded=False), "dead", True, 8),
    "interrupted in the foreground": (speed(beat(at=8), alive=False, recorded=False), "not_started", False, None),
    "ended in order, and nobody stopped it": (speed(beat(at=8), alive=False), "dead", True, 8),
    "stopped by `down`": (Signs(SPEED), "not_started", False, None),
    "killed, and its supervisor waits": (speed(beat(loop(9), at=8), alive=False, failure=failed(7)), "dead", True, 7),
    "kill -STOP": (speed(OK, stopped=True), "stuck", True, 0.5),
    "kill -STOP where the kernel does not tell": (speed(beat(loop(7), at=6)), "stuck", True, 6),
    "silent for no longer than the bound": (speed(beat(loop(5), at=5)), "running", False, None),
    "a trigger that never ends": (speed(beat(loop(61))), "stuck", True, 61),
    "one source of two never ends": (speed(beat(loop(), loop(90, source="b"))), "stuck", True, 90),
    "a broker that hangs": (speed(beat(loop(70, moved=2, waits="no broker"))), "stuck", True, 70),
    "no broker from the start": (speed(beat(loop(None, moved=2, waits="no broker"))), "stuck", True, 2),
    "the first start": (speed(beat(loop(None))), "starting", False, 20),
    "the first start before any beat": (speed(None, last=ago(3)), "starting", False, 3),
    "a start that never ends": (speed(beat(loop(None, moved=301))), "stuck", True, 301),
    "restarted after it was killed": (speed(beat(loop(None)), failure=failed(33)), "starting", True, 33),
    "restarted, no beat yet": (speed(None, failure=failed(12), last=ago(1)), "starting", True, 12),
    "no release is known yet": (speed(beat(at=5)), "starting", False, 5),
    "given up": (speed(beat(loop(99), at=90), alive=False, failure=failed(40, over=True)), "given_up", True, 40),
    "nothing was started": (Signs(SPEED), "not_started", False, None),
    "tables alone, a moment": (Signs(SPEED, uncounted_since=ago(60)), "not_started", False, None),
    "tables alone, nobody counts": (Signs(SPEED, uncounted_since=ago(61)), "stuck", True, 61),
    "tables alone, somebody counts": (Signs(SPEED, uncounted_since=ago(61), committed=ago(2)), "behind", False, 61),
    "tables alone, nobody counts for long": (Signs(SPEED, uncounted_since=ago(600), committed=ago(61)), "stuck", True, 600),
    "tables alone, a quiet log": (Signs(SPEED, committed=ago(6000)), "not_started", False, None),
    "broker": (Signs(BROKER, recorded=True, alive=True, last=ago(500)), "running", False, None),
    "broker that answers": (Signs(BROKER, recorded=True, alive=True, answered=ago(2)), "running", False, None),
    "broker that hangs where nothing stopped it": (Signs(BROKER, recorded=True, alive=True, answered=ago(16)), "stuck", True, 16),
    "broker killed": (Signs(BROKER, recorded=True, alive=False, last=ago(5)), "dead", True, 5),
    "broker stopped": (Signs(BROKER, recorded=True, alive=True, stopped=True, last=ago(5)), "stuck", True, 5),
    "broker restarted after it was killed": (Signs(BROKER, recorded=True, alive=True, failure=failed(4)), "starting", True, 4),
    "broker killed just now": (Signs(BROKER, recorded=True, alive=False, last=ago(500), answered=ago(2)), "dead", True, 2),
    "broker stopped just now": (
        Signs(BROKER, recorded=True, alive=True, stopped=True, last=ago(500), answered=ago(2)),
        "stuck",
        True,
        2,
    ),
    "broker given up": (Signs(BROKER, recorded=True, alive=False, failure=failed(5, over=True)), "given_up", True, 5),
    "broker never started": (Signs(BROKER), "not_started", False, None),
    "a clock that was set back": (speed(beat(loop(-50), at=-50)), "running", False, None),
}


@pytest.mark.parametrize(("signs", "state", "red", "since"), CASES.values(), ids=CASES)
def test_each_case_has_its_state(signs: Signs, state: str, *, red: bool, since: float | None) -> None:
    found = decided(signs)
    assert (found.state, found.red, found.since) == (state, red, None if since is None else ago(since))
    if red:
        assert found.why
        assert found.advice
        assert found.sentence.startswith(f"{found.called} has been ")


SECONDS = st.integers(-30, 4000) | st.sampled_from((0, 2, 3, 4, 5, 6, 14, 15, 16, 59, 60, 61))
LOOPS = st.builds(
    lambda looked, moved, waits: loop(looked, moved=moved, waits=waits),
    st.none() | SECONDS,
    SECONDS,
    st.sampled_from(("", "", "no broker")),
)
BEATS = st.none() | st.builds(lambda loops, at: beat(*loops, at=at), st.lists(LOOPS, max_size=3), SECONDS)
SIGNS = st.builds(
    Signs,
    st.sampled_from((SPEED, SPEED, BROKER, "airflow-scheduler")),
    recorded=st.booleans(),
    alive=st.none() | st.booleans(),
    stopped=st.booleans(),
    failure=st.none() | st.builds(lambda seconds, over: failed(seconds, over=over), SECONDS, st.booleans()),
    beat=BEATS,
    last=st.none() | SECONDS.map(ago),
    answered=st.none() | SECONDS.map(ago),
    uncounted_since=st.none() | SECONDS.map(ago),
    committed=st.none() | SECONDS.map(ago),
)


@given(st.lists(LOOPS, max_size=3), st.integers(6, 4000) | st.just(5.001))
def test_a_living_speed_layer_whose_last_beat_is_old_is_stuck(loops: list[FollowLoop], silent: float) -> None:
    found = decided(speed(beat(*loops, at=silent)))
    assert (found.state, found.red, found.since) == ("stuck", True, ago(silent))
    assert decided(speed(beat(loop(), at=5))).state == "running"


@given(SIGNS)
def test_a_part_without_progress_is_red_and_states_the_fix(signs: Signs) -> None:
    """The demands, each said on its own, whatever the other signs are."""
    found = decided(signs)
    assert found.state in STATES
    assert found.since is None or found.since <= NOW
    assert found.age is None or found.age >= 0
    assert found.red == (found.state in ("dead", "stuck", "given_up")) or found.state == "starting"
    if found.red:
        assert found.why
        assert found.advice
    if signs.failure is not None and signs.failure.over:
        assert found.state == "given_up"
        return
    silence = timedelta.max if signs.beat is None else NOW - signs.beat.at
    if signs.recorded and signs.alive is False and (signs.part != SPEED or silence > GONE):
        assert found.state == "dead"
    if signs.alive and signs.stopped:
        assert found.state == "stuck"
    if signs.part != SPEED and signs.alive and signs.failure is not None:
        assert found.red
    if signs.part == SPEED and signs.alive and signs.beat is not None and silence > SILENT:
        assert found.state == "stuck"
    if found.state in ("running", "behind") and signs.part == SPEED and signs.alive:
        assert signs.beat is not None
        assert silence <= SILENT
        assert signs.beat.loops
        for one in signs.beat.loops:
            assert not one.waits
            assert one.looked is not None
            assert NOW - one.looked <= (BEHIND if found.state == "running" else BOUNDS.stuck)


@given(SIGNS.filter(lambda signs: signs.alive or (signs.recorded and signs.alive is False)), st.integers(0, 5000))
def test_without_a_new_sign_no_part_recovers(signs: Signs, later: int) -> None:
    """A part that is there, or has to be, stays red however much later somebody looks again."""
    if decided(signs).red:
        assert decided(signs, NOW + timedelta(seconds=later)).red


def test_the_document_equals_the_state() -> None:
    for signs, *_ in CASES.values():
        found = decided(signs)
        told = found.to_json()
        assert (told["part"], told["state"], told["red"], told["age_s"]) == (found.part, found.state, found.red, found.age)
        assert told["sentence"].startswith(found.brief)
