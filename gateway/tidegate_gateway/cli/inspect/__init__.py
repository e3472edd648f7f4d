"""`tidegate inspect`: what one object holds."""
