"""A small HTTP/1.1 client and server on h11 and Trio, over streams that are passed in."""
