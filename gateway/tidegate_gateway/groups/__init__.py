"""Consumer groups on the gateway that serves them: claims, timers and parked requests."""
