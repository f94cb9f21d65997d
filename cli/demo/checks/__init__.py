"""The demo's checks: answers, and what sinks and alerts have stored, beside the generator's expected answers."""
