# SPDX-License-Identifier: Apache-2.0
"""Sends requests to a Redis: GETs and some SETs with Zipf-distributed keys; half-way, other keys become popular."""

import random
import socket
import sys
import time

KEYS, REQUESTS, SKEW, SETS, BATCH = 20_000, 12_000, 0.99, 0.05, 100
VALUE = b"v" * 256


def command(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def replies(file, count):
    for _ in range(count):
        line = file.readline()
        if line[:1] == b"-":
            sys.exit(line.decode())
        if line[:1] == b"$" and line[1:2] != b"-":
            file.read(int(line[1:]) + 2)


def main(path):
    rng = random.Random(1)
    ranks = rng.sample(range(KEYS), KEYS)
    weights = [1 / (rank + 1) ** SKEW for rank in range(KEYS)]
    drawn = rng.choices(range(KEYS), weights, k=REQUESTS)
    server = socket.socket(socket.AF_UNIX)
    # Under Valgrind the server needs minutes to start.
    while server.connect_ex(path) != 0:
        time.sleep(0.5)
    file = server.makefile("rb")
    # The server creates the keys itself, as requests are slow here.
    server.sendall(command(b"DEBUG", b"POPULATE", b"%d" % KEYS, b"key", b"256"))
    replies(file, 1)
    for start in range(0, REQUESTS, BATCH):
        moved = KEYS // 2 if start >= REQUESTS // 2 else 0
        batch = []
        for rank in drawn[start : start + BATCH]:
            key = b"key:%d" % ranks[(rank + moved) % KEYS]
            batch.append(command(b"SET", key, VALUE) if rng.random() < SETS else command(b"GET", key))
        server.sendall(b"".join(batch))
        replies(file, len(batch))
    server.sendall(command(b"SHUTDOWN", b"NOSAVE"))


main(sys.argv[1])
