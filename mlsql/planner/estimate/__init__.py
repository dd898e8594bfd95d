"""Statistics of approximate answers: pure functions on arrays, with a generator passed in.

Nothing here knows SQL, models or settings. Every promise is about the oracle's answers, not the
truth, and holds at the sample size used, for any table, order and proxy.
"""
