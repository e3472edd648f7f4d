"""Units: groups and transactional ids of a source that must move here together."""
