"""The part of the cluster state that says where records lie, and of whom they are."""
