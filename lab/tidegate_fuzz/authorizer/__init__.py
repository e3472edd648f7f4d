"""Random ACLs and questions, and a second authorizer that is easy to check by eye."""
