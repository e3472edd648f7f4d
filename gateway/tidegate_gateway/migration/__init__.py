"""Moves topics, groups and transactional ids of classic Kafka clusters to this one, and back.

The folders: `mirror` copies topics.  `forward` forwards requests of clients to the source.
`switch` moves topics here, and `back` returns them.  `units` moves groups and transactional ids.
`carry` copies ACLs, quotas and users.  `survey` examines a source beforehand.  `links` runs them
for each link.
"""
