"""The contract of every metadata log, as checks that run against any implementation."""
