"""Administrative requests that reach a gateway which stands still, and act late or not at all."""
