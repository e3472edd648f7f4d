"""Builds the image of Tidegate and runs it, alone and in a cluster: `./check image`."""
