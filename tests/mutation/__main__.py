"""`python -m tests.mutation`: the share of small bugs that the tests see (`./tandem test --mutants`)."""

import sys

from tests.mutation.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
