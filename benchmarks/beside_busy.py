"""Runs a command while another process keeps one core busy: python -m benchmarks.beside_busy COMMAND ..."""

import subprocess
import sys


def main() -> int:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        return subprocess.run(sys.argv[1:], check=False).returncode
    finally:
        busy.kill()
        busy.wait()


if __name__ == "__main__":
    sys.exit(main())
