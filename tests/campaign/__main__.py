"""`python -m tests.campaign`: kills, freezes and worse on the real stack (`./tandem test --campaign`)."""

import sys

from tests.campaign.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
