"""What a user did or gave that cannot work."""


class AnnulusError(Exception):
    """Its text is one line that names the file, what was found there, and what was expected.

    The command line prints the line and exits with 2.
    """

    def __init__(self, text):
        super().__init__(" ".join(line.strip() for line in str(text).splitlines()))  # names of files may have several


def one_line(problem):
    """What another library's exception says, for a message."""
    text = str(problem.args[0] if isinstance(problem, KeyError) and problem.args else problem) or type(problem).__name__
    return " ".join(text.split())[:120]
