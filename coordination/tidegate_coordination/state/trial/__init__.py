"""Events are folded on trial, before they are appended to the log."""
