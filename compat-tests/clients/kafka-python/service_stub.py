"""Stands in for test/service.py, which the source distribution leaves out.

The suite then talks to the broker it was pointed at and starts none itself.
"""


class ExternalService:
    """A service that another process starts and stops."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        """It is open."""

    def start(self) -> None:
        """It runs."""

    def stop(self) -> None:
        """It is not ours."""

    def close(self) -> None:
        """It is not ours."""

    def wait_for(self, pattern: str, timeout: float = 30) -> None:
        """It is ready."""


class SpawnedService:
    """Refuses: this suite starts no broker of its own."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise RuntimeError("no broker is started here; set KAFKA_URI")
