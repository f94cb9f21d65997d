"""Places are shared in turn: nobody waits behind more than one turn of another, and who is alone may have all that is his."""

from collections import Counter, deque

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tandem.serving.access.fair_pool import FairQueue
from tandem.serving.access.limits import Shares

NAMES = ("a", "b", "c", "d")


class Turns(RuleBasedStateMachine):
    """Any sequence of entering, leaving and going away, beside a plain account of who waits since when."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: FairQueue[int] = FairQueue(3, 2)
        self.held: Counter[str] = Counter()
        self.waiting: dict[str, deque[int]] = {name: deque() for name in NAMES}
        self.behind: dict[str, Counter[str]] = {}
        self.number = 0

    def began(self, name: str) -> None:
        self.held[name] += 1
        for other, turns in self.behind.items():
            # Who has all that one may have does not wait for a turn.
            if other != name and self.held[other] < 2:
                turns[name] += 1
                assert turns[name] <= 1, f"{other} waits behind {turns[name]} turns of {name}"
        self.behind.pop(name, None)
        if self.waiting[name]:
            self.behind[name] = Counter()

    @rule(name=st.sampled_from(NAMES))
    def enter(self, name: str) -> None:
        self.number += 1
        if self.queue.enter(name, self.number):
            assert not self.waiting[name]
            self.held[name] += 1
        else:
            self.waiting[name].append(self.number)
            self.behind.setdefault(name, Counter())

    @precondition(lambda self: self.held.total())
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([one for one in NAMES if self.held[one]]))
        self.held[name] -= 1
        if (found := self.queue.leave(name)) is not None:
            following, ticket = found
            assert self.waiting[following].popleft() == ticket  # a principal's own in the order in which they came
            self.began(following)

    @precondition(lambda self: any(self.waiting.values()))
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([one for one in NAMES if self.waiting[one]]))
        ticket = data.draw(st.sampled_from([*self.waiting[name]]))
        self.queue.withdraw(name, ticket)
        self.waiting[name].remove(ticket)
        if not self.waiting[name]:
            self.behind.pop(name, None)

    @invariant()
    def bounds_hold_and_no_place_is_free_for_who_waits(self) -> None:
        assert self.held.total() <= 3
        assert all(count <= 2 for count in self.held.values())
        if self.held.total() < 3:
            assert not any(self.waiting[name] and self.held[name] < 2 for name in NAMES)


TestTurns = Turns.TestCase


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(NAMES), st.integers(1, 400)),
            st.tuples(st.sampled_from(NAMES), st.just(0)),  # gives back the oldest
        ),
        max_size=60,
    )
)
def test_there_is_always_room_for_another_principal(steps: list[tuple[str, int]]) -> None:
    shares, held = Shares(1024), {name: deque[int]() for name in NAMES}
    for name, amount in steps:
        if amount and amount <= 512 and shares.take(name, amount):
            held[name].append(amount)
        elif not amount and held[name]:
            shares.give_back(name, held[name].popleft())
        sums = {one: sum(amounts) for one, amounts in held.items() if amounts}
        free = 1024 - sum(sums.values())
        assert free >= 1024 >> len(sums)
        assert all(shares.held(one) == of for one, of in sums.items())
        if free > 1:
            assert shares.take("newcomer", free // 2)
            shares.give_back("newcomer", free // 2)


def test_a_granted_amount_may_change() -> None:
    shares = Shares(10)
    assert shares.take("a", 4)
    shares.resize("a", 4, 20)
    assert (shares.used, shares.held("a")) == (20, 20)
    assert not shares.take("b")
    shares.resize("a", 20, 0)
    assert (shares.used, shares.held("a")) == (0, 0)
    assert shares.take("b", 5)


def test_one_amount_is_granted_whatever_its_size_and_a_principal_has_at_most_its_own_bound() -> None:
    shares = Shares(10, most=3)
    assert shares.take("a", 100)
    assert not shares.take("b")
    shares.give_back("a", 100)
    assert [shares.take("a") for _ in range(4)] == [True] * 3 + [False]
    assert shares.take("b")
