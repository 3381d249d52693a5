"""python3 -m harness: the command line, from the checkout, installed or not."""

import signal
import sys

if __name__ == "__main__":  # while modules are imported, Ctrl-C ends the process without a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)

try:
    from harness.cli import main
except ModuleNotFoundError as error:
    if sys.argv[1:2] == ["doctor"]:  # which needs nothing but Python
        from harness.setup import doctor

        sys.exit(doctor.main("--json" in sys.argv[2:]))
    sys.exit(f"{error.name} is missing here. `make report` sets up; `python3 -m harness doctor` says what is missing.")

if __name__ == "__main__":
    main()
