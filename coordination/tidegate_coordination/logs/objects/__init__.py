"""`s3:`, `gs:`, `az:`: a metadata log of objects with conditional writes."""
