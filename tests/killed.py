"""Processes that end at any point of their work, in the process of a test."""

from dataclasses import dataclass


class Killed(BaseException):
    """The process ends here; not an Exception, so that no code under test catches it."""


@dataclass
class Life:
    """How many points a process passes before it is killed."""

    left: int

    def passes(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed
