"""Consumer groups as pure machines: requests and times in, effects out.  Nothing here waits."""
