"""What the lists of mutations share."""
import dataclasses

MUTATIONS = []


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One mistake."""
    name: str
    what: str  # for the table: what the mistake is
    file: str
    find: str  # occurs once in the file
    put: str
    tests: tuple  # names for ctest, or for pytest (they begin with "tests/"); each must fail

    @property
    def room(self):
        """core, pattern, ...; "python" for the Python package."""
        parts = self.file.split("/")
        return parts[2] if parts[0] == "src" else "python"


def mutation(name, what, file, find, put, *tests):
    MUTATIONS.append(Mutation(name, what, file, find, put, tests))
