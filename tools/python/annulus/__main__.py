"""The command line: annulus-tools, or python -m annulus."""
import shlex
import signal
import sys

from annulus.commands import parser
from annulus.errors import AnnulusError

OF_THE_PROGRAM = ("run", "verify", "plan", "bench", "generate", "train", "info", "list")  # verbs of the program only


def main(arguments=None):
    """Returns the exit status: 0 done, 1 failed while working (full disk), 2 wrong arguments or files, 130 Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGHUP):  # raise SystemExit, so that half-written files are removed
        if signal.getsignal(number) != signal.SIG_IGN:  # under nohup SIGHUP stays ignored
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    for stream in (sys.stdout, sys.stderr):  # file names may have characters that the terminal's encoding lacks
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] in OF_THE_PROGRAM:
        print(f"annulus-tools: error: {arguments[0]} is a verb of the program annulus, expected: annulus "
              f"{shlex.join(arguments)}", file=sys.stderr)
        return 2
    options = parser().parse_args(arguments)
    try:
        options.act(options)
    except AnnulusError as mistake:
        print(f"annulus-tools: error: {mistake}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the program that reads our output has ended
        sys.stderr.close()
        return 1
    except (OSError, MemoryError) as problem:
        print(f"annulus-tools: error: {problem or type(problem).__name__}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
