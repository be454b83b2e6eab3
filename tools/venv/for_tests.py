#!/usr/bin/env python3
"""Provides the environment in which the Python package is tested; prints the path of its Python; quick if it exists."""
import sys

from environment import Environment, Failed


def say(line):
    print(f"python: {line}", file=sys.stderr, flush=True)


def main():
    environment = Environment(say)
    try:
        with environment.locked():
            environment.install("annulus", "tests")  # pyproject.toml, needs/tests.in
            environment.install_torch()
    except Failed as failure:
        say(f"error: {failure}")
        return 1
    print(environment.python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
