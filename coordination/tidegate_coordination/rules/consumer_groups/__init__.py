"""Rules of consumer groups, their offsets, and when these expire."""
