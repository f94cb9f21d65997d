"""Applies changed definitions beside the live release, compares both, and decides whether the new one may go live."""
