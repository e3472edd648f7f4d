"""Rules of transactions: their ids, what belongs to them, and how they end.

Any gateway may propose any step: the producer id and epoch in the state at the entry's position
fence clients, so no gateway coordinates a transaction.
"""
