"""Forwards what clients ask of mirrored topics, groups and transactional ids to the source."""
