#!/usr/bin/env python3
"""Acts on its partition, and looks at its lease directly before each act:
rota run … --source none:?partitions=8 --own 'exec:examples/lease/look.py acts.txt'"""
import os
import sys
import time


def look():
    """The clock, if this command may act; otherwise 0."""
    try:
        with open(os.environ["ROTA_LEASE_FILE"]) as f:  # the file first, then the clock
            since, end = map(int, f.read().split())
    except (KeyError, OSError, ValueError):
        return 0
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)  # not time.monotonic: it stands still in suspend
    return now if since <= now < end else 0


def note(word, now):
    with open(sys.argv[1], "a") as f:
        f.write(f"{word} {os.environ['ROTA_PARTITION']} {os.environ['ROTA_TOKEN']} {now}\n")


while now := look():
    note("acts", now)
    time.sleep(0.02)
note("refused", time.clock_gettime_ns(time.CLOCK_BOOTTIME))
sys.exit(77)  # for a handler of messages: nothing is settled
