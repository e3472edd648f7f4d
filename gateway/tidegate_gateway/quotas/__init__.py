"""Client quotas: rates, throttle times, and who is throttled."""
