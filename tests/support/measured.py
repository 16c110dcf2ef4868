"""Seconds and peak memory of a program.

A child begins with the peak of the process that starts it. So this file, run as a program with a command, starts it from a small process, and prints
what it took as JSON; measured(COMMAND) does so from any process.
"""

import json
import os
import subprocess
import sys
import time


def measured(command, **options):
    """What a command that must succeed took: seconds, and bytes at its peak."""
    done = subprocess.run([sys.executable, "-S", __file__, *map(str, command)], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])


def main(command):
    begin = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    print(json.dumps({"seconds": time.monotonic() - begin, "bytes": usage.ru_maxrss * 1024}))
    return child.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
