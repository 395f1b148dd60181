# SPDX-License-Identifier: Apache-2.0
"""The method of the SDR-RDMA paper (SC '25, sections 4.2 and 5.1.1) as a plain Python loop.

Written from the paper's text to compare with package model: the same averages, and how much faster
the latter is. For each sample every chunk draws its number of transmissions (SR), and every
submessage its number of lost chunks (EC, MDS). Only the standard library is used.

usage: published.py SAMPLES SIZE,SIZE,... DROP,DROP,...
Sizes are in bytes, drop probabilities are per 64 KiB chunk. Prints a line per point: size, drop,
average of SR and of EC in seconds; then the seconds that the sampling took.
"""

import random
import sys
import time

RATE, RTT, CHUNK = 400e9, 25e-3, 64 * 1024
RTO, BETA, K, M = 3 * RTT, 0.5, 32, 8
T_INJ = CHUNK * 8 / RATE


def sr(chunks, drop, rnd):
    """max over i of t_start(i) + O * (Y_i - 1), plus RTT (section 4.2.2)."""
    overhead, last = RTO + T_INJ, 0.0
    for i in range(1, chunks + 1):
        done = i * T_INJ
        while rnd() < drop:
            done += overhead
        if done > last:
            last = done
    return last + RTT


def ec(chunks, drop, rnd):
    """Data and parity once, and SR of the submessages that lost more than M (section 4.2.3)."""
    failed, sent = 0, 0
    for first in range(0, chunks, K):
        data = min(K, chunks - first)
        sent += data + M
        lost = 0
        for _ in range(data + M):
            if rnd() < drop:
                lost += 1
        if lost > M:
            failed += data
    if failed == 0:
        return sent * T_INJ + RTT
    return sent * T_INJ + RTT + BETA * RTT + sr(failed, drop, rnd)


def main():
    samples = int(sys.argv[1])
    sizes = [int(float(s)) for s in sys.argv[2].split(",")]
    drops = [float(p) for p in sys.argv[3].split(",")]
    rnd = random.Random(1).random
    start = time.perf_counter()
    for size in sizes:
        chunks = -(-size // CHUNK)
        for drop in drops:
            a = sum(sr(chunks, drop, rnd) for _ in range(samples)) / samples
            b = sum(ec(chunks, drop, rnd) for _ in range(samples)) / samples
            print(size, drop, a, b)
    print("seconds", time.perf_counter() - start)


main()
