"""Tandem's fixtures for the tests in this folder. A checkout needs this file; after `pip install` pytest finds them itself."""

from tandem.pytest_plugin import tandem_answer, tandem_at_every_cut, tandem_checked_answer

__all__ = ["tandem_answer", "tandem_at_every_cut", "tandem_checked_answer"]
