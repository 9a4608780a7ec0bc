#!/usr/bin/env python3
"""Runs a command and prints its peak resident memory in KiB.

    benches/peak.py COMMAND...

A process of its own, and a small one: a child's peak begins with its parent's.
"""

import os
import subprocess
import sys


def peak(command):
    """The same for scripts that may have grown themselves."""
    small = [sys.executable, __file__, *(str(word) for word in command)]
    return int(subprocess.run(small, check=True, stdout=subprocess.PIPE).stdout)


if __name__ == "__main__":
    child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    print(usage.ru_maxrss)
    sys.exit(status != 0)
