"""What the speed layer reports of itself: progress and log events. No answer comes from here."""
