"""Fixtures for a project's tests. An installed copy gives them to every test; a checkout does where conftest.py imports them."""

from tandem.cli.pytest_plugin import tandem_answer, tandem_at_every_cut, tandem_checked_answer

__all__ = ["tandem_answer", "tandem_at_every_cut", "tandem_checked_answer"]
