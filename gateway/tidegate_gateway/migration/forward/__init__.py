"""Forwards requests about mirrored topics, groups and transactional ids to the source."""
