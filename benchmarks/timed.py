"""Prints how many seconds a command takes: python -m benchmarks.timed COMMAND ..."""

import subprocess
import sys
import time

if __name__ == "__main__":
    start = time.perf_counter()
    subprocess.run(sys.argv[1:], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    print(time.perf_counter() - start)
