"""What a user did or gave that cannot work."""


class AnnulusError(Exception):
    """Its text is one line that names the file, what was found there, and what was expected.

    The command line prints the line and exits with 2.
    """
