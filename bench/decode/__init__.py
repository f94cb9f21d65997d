"""What decoding costs, by format."""
