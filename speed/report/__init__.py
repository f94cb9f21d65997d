"""What the speed layer reports of itself: progress and log events. No number that is answered comes from here."""
