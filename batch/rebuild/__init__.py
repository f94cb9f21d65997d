"""Compute the batch views of one source below a cut: gather, find duplicates, fold, account. Commits no table."""
