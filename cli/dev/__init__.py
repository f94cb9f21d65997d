"""Commands for developers of Tandem in a checkout: tests, benchmarks, the wheel, the reference page. No project needs these."""
