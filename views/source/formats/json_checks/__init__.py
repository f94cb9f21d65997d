"""What JSON is checked for beyond what msgspec refuses."""
