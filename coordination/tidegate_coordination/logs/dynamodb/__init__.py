"""`dynamodb:`: a metadata log in a table of Amazon DynamoDB."""
