"""Draws that depend only on a seed and their place: leaving one out of a schedule changes no other."""

from random import Random

Site = tuple[int, ...]
"""Where something is drawn: a step of the schedule, or the step that started a process and the number of its I/O call."""

PAST: Site = (-1,)
"""That a schedule begins with what another one left."""

_BITS = 64
_MASK = (1 << _BITS) - 1
_FRACTION = 53


def fraction(seed: int, *site: int) -> float:
    """A number in [0, 1). The hash of integers is the same in every process."""
    mixed = hash((seed, *site)) & _MASK
    mixed = ((mixed ^ (mixed >> 31)) * 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9) & _MASK
    return (mixed >> (_BITS - _FRACTION)) / (1 << _FRACTION)


def roll(seed: int, *site: int) -> Random:
    """A generator of its own."""
    return Random(int(fraction(seed, *site, 7) * (1 << _FRACTION)))
