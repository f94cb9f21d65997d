"""States that several measures share: sums, power sums, moments, hashes."""
