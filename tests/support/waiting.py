"""For tests that start programs: waits until something has happened."""
import time


PATIENT = 4  # machines of CI are slow, and do other work beside the tests


class NotInTime(AssertionError):
    """Something did not happen in time; the text says what."""


def until(seconds, holds, what):
    """Waits until holds() is true and returns its value. If this takes more than PATIENT * seconds, raises NotInTime
    with `what`: a text, or a function that returns a text. `seconds` is a limit for quiet machines."""
    seconds *= PATIENT
    end = time.monotonic() + seconds
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > end:
            raise NotInTime(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.01)
