"""Work that would hold up the event loop, done in threads that no client can monopolise."""
