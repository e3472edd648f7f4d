"""Groups and transactional ids of a source, which move here whole."""
