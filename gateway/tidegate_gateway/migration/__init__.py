"""Moves topics, groups and transactional ids of classic Kafka clusters to this one, and back.

The rooms: `mirror` copies topics, `forward` passes on what clients ask, `switch` and `back` move
topics here and back, `units` moves groups and transactional ids, `carry` copies security, `survey`
looks at a source first.  `links` runs them for each link.
"""
