"""How many rounds to run at once: one at first, so that something moves soon, then about as many as take a second.

Results do not depend on it: every division into chunks gives the same bits.
"""

MOMENT = 1.0  # seconds that a chunk should take
GROWTH = 8  # a chunk is at most so many times longer than the one before, since the first rounds are no good measure


def next_rounds(rounds: int, seconds: float, *, most: int) -> int:
    """Rounds of the next chunk, after one of `rounds` took `seconds`; at least 1 and at most `most`."""
    wanted = GROWTH * rounds if seconds <= 0 else rounds * min(GROWTH, MOMENT / seconds)
    return max(1, min(most, int(wanted)))
