#!/usr/bin/env python3
"""A worker: rota run … --handle 'worker:examples/workers/worker.py handled.txt'
It appends each message to a file. See docs/workers.md."""
import json
import os
import sys
import time


def may_act():
    try:
        with open(os.environ["ROTA_LEASE_FILE"]) as f:
            since, end = map(int, f.read().split())
    except (KeyError, OSError, ValueError):
        return False
    return since <= time.clock_gettime_ns(time.CLOCK_BOOTTIME) < end


def handle(message, value):
    """What happens to a message: the word for it, and the reason."""
    if not value.strip():
        return "bad", "an empty line"  # a dead letter
    if not may_act():
        return "refused", "the lease is over"
    with open(sys.argv[1], "a") as f:
        f.write(f"{message['partition']} {message['token']} {message['attempt']} {value.decode()}\n")
    return "done", ""


while line := sys.stdin.buffer.readline():
    message = json.loads(line)
    value = sys.stdin.buffer.read(message["bytes"])
    if len(value) < message["bytes"]:
        break  # rota is gone
    try:
        word, reason = handle(message, value)
    except Exception as e:
        word, reason = "failed", str(e)  # tried again after a pause
    print(json.dumps({"seq": message["seq"], "is": word, "reason": reason}), flush=True)
