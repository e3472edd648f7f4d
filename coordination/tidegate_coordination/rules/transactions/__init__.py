"""Rules of transactions: their ids, what belongs to them, and how they end.

Any gateway may propose any step: the fence is the producer id and epoch in the state at the
position of the entry, so no gateway coordinates a transaction.
"""
