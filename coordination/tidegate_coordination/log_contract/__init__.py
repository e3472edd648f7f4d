"""What every metadata log must promise, as checks that run against anyone's log."""
