"""What to merge or compact next.  Pure."""
