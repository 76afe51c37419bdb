"""``python -m impi.rank.agent``: started by impirun for ``--hosts node`` and ``--hosts client``."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from impi.base.errors import ImpiError, JobError
from impi.rank.agent import VARIABLE
from impi.rank.agent.serve import GRACE_S, serve


def main() -> int:
    """Run the agent; return the exit code."""

    # Exit later: the folder of the socket is to be removed.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))

    invitation = json.loads(os.environ.pop(VARIABLE))
    try:
        serve(invitation)
    except JobError as error:
        # The impirun of the lost proc names the cause and ends this process. Until then all
        # connections stay open: the traceback holds them.
        time.sleep(GRACE_S)
        print(f"impi: {invitation['title']}: {error}", file=sys.stderr, flush=True)
        return 1
    except ImpiError as error:
        print(f"impi: {invitation['title']}: {error}", file=sys.stderr, flush=True)
        return 1

    return 0


if __name__ == "__main__":
    sys.exit(main())
