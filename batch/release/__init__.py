"""Apply changed definitions beside the live release, compare both, and decide whether the new one may go live."""
