"""Client quotas: rates, throttle times, and the throttling of clients."""
