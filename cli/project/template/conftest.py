"""Tandem's fixtures for the tests beside this file; a `pip install` of Tandem brings them by itself, a checkout does not."""

from tandem.pytest_plugin import tandem_answer, tandem_at_every_cut, tandem_checked_answer

__all__ = ["tandem_answer", "tandem_at_every_cut", "tandem_checked_answer"]
