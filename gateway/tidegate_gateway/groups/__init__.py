"""Consumer groups on the gateway that hosts them: claims, timers and parked requests."""
