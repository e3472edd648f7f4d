"""Stands in for test/service.py, which the source distribution leaves out.

The suite then talks to the broker it was pointed at and starts none itself.
"""


class ExternalService:
    """A service that somebody else starts and stops."""

    def __init__(self, host, port):
        self.host = host
        self.port = port

    def open(self):
        """It is open."""

    def start(self):
        """It runs."""

    def stop(self):
        """It is not ours."""

    def close(self):
        """It is not ours."""

    def wait_for(self, pattern, timeout=30):
        """It is ready."""


class SpawnedService:
    """Refuses: this suite starts no broker of its own."""

    def __init__(self, *args, **kwargs):
        raise RuntimeError("no broker is started here; set KAFKA_URI")
