"""The names of objects in the object store, and their standing in the state."""
