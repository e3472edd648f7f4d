"""How an object is named in the object store, and what the state says of it."""
