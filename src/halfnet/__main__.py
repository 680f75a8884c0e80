"""`python -m halfnet` is the command `halfnet`."""

import sys

from halfnet.cli import main

if __name__ == "__main__":
    sys.exit(main())
