"""python3 -m harness: the command line, from the checkout, installed or not."""

import sys

try:
    from harness.cli import main
except ModuleNotFoundError as error:
    sys.exit(
        f"{error.name} is missing here. `make report` sets up; `python3 -m harness.setup.doctor` says what is missing."
    )

if __name__ == "__main__":
    main()
