"""Waits for what another process does."""
import time


def until(seconds, holds, what, error=AssertionError):
    """Waits until holds() is true and returns its value; otherwise raises `error`, which says what did not happen."""
    end = time.monotonic() + seconds
    while not (value := holds()):
        if time.monotonic() > end:
            raise error(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.005)
    return value
