"""The one number of several batch versions: any others have another, and JavaScript has all of its digits."""

from itertools import product
from random import Random

from tandem.ledger.publish.batch_parts import pair_numbers

EXACT_IN_JAVASCRIPT = 2**53


def test_small_numbers_have_the_number_that_stored_tokens_have() -> None:
    """Cantor's diagonals, which stay as they were: 0 0, then 1 0 and 0 1, then 2 0, 1 1 and 0 2."""
    assert [pair_numbers(each) for each in ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2))] == [0, 1, 2, 3, 4, 5]
    assert pair_numbers((7,)) == 7
    assert pair_numbers((5, 3)) == 39


def test_numbers_of_many_sources_are_different_and_below_the_limit_of_javascript() -> None:
    dice = Random(7)
    numbers = {*product(range(9), repeat=4), *(tuple(dice.randrange(1 << 40) for _ in range(4)) for _ in range(20_000))}
    numbers |= {(*each[:3], each[3] + 1) for each in numbers}
    paired = {pair_numbers(each) for each in numbers}
    assert len(paired) == len(numbers)
    assert 0 <= min(paired) <= max(paired) < EXACT_IN_JAVASCRIPT
