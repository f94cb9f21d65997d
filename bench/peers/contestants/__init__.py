"""The contestants, one file each."""
