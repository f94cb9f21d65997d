"""What developers of Tandem run in a checkout: tests, benchmarks, the wheel, the reference page. No project needs these."""
