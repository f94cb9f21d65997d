"""Pytest fixtures for a project's tests: the functions of `tandem.testing`, under names that start with `tandem_`.

Pytest imports this module in every run in an environment with Tandem, so the platform is imported only by the first test that
uses a fixture. A checkout is not installed: there a project's conftest.py imports the fixtures from `tandem.pytest_plugin`.
"""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tandem.views.verify.every_cut import Answer, AnswerAtCuts


@pytest.fixture(scope="session")
def tandem_answer() -> "Answer":
    """`tandem.testing.answer`: the rows that a view answers for events."""
    from tandem.views.testing import answer  # noqa: PLC0415  not before a test asks for it

    return answer


@pytest.fixture(scope="session")
def tandem_at_every_cut() -> "AnswerAtCuts":
    """`tandem.testing.at_every_cut`: the rows of a view with the cut before, between and after its events."""
    from tandem.views.verify.every_cut import at_every_cut  # noqa: PLC0415  not before a test asks for it

    return at_every_cut


@pytest.fixture(scope="session")
def tandem_checked_answer() -> "Answer":
    """`tandem.testing.checked_answer`: the rows, once they equal the plain oracle's at every cut."""
    from tandem.views.verify.every_cut import checked_answer  # noqa: PLC0415  not before a test asks for it

    return checked_answer
