"""One partition's log at its leader, and the leader's state of producers.  Pure."""
