"""The error for wrong arguments and wrong files."""


class AnnulusError(Exception):
    """Its text is one line, which names the file or argument, what was found, and what was expected.

    The command line prints the line and exits with 2.
    """

    def __init__(self, text):
        super().__init__(" ".join(line.strip() for line in str(text).splitlines()))  # file names may contain newlines


def one_line(problem):
    """The text of another library's exception in one line of at most 120 characters, for use in a message."""
    text = str(problem.args[0] if isinstance(problem, KeyError) and problem.args else problem) or type(problem).__name__
    return " ".join(text.split())[:120]
