# SPDX-License-Identifier: Apache-2.0
"""Checks what calm.sh prints and writes."""

from tool.suite import boot, check, metric


def run(work, options):
    guest = boot(work, options, "calm", "--mode", "deterministic", "--seed", options.seed, "--timeout", "480")

    def process(name):
        return (guest.json(f"calm.{name}").get("processes") or [{}])[0]

    def cpu(name):
        return process(name).get("user_seconds", 0) + process(name).get("system_seconds", 0)

    used = (cpu("after") - cpu("before")) / 60
    check(f"50 tenants that do nothing cost {used:.2%} of a CPU of 250 MIPS", process("after") and 0 < used <= 0.01, used)
    resident = process("after").get("rss_peak_bytes", 0) / (1 << 20)
    check(f"the daemon's resident memory: {resident:.1f} MiB at most", 0 < resident <= 30, resident)
    asked = guest.json("calm.asked")
    # One processor, whose scans go before all else: an answer may wait for one.
    most = (asked.get("served") or {}).get("p95") or 9
    check(f"a request is answered within 10 ms ({most * 1e3:.1f} ms in 95 of 100)", asked.get("answers", {}).get("200") == 100 and most <= 0.010, asked)
    storm = guest.json("calm.stormed")
    shed, answers = (storm.get("shed") or {}).get("p99") or 9, storm.get("answers", {})
    check(f"of 10,000 requests in {storm.get('elapsed_seconds', 0):.0f} s those over the limit are shed at once ({answers}, 99 of 100 in {shed * 1e3:.1f} ms)",
          answers.get("429", 0) + answers.get("503", 0) > 2 * answers.get("200", 0) > 0 and not answers.get("0") and shed <= 0.010, storm)
    busy = guest.json("busy.json")
    check(f"meanwhile a program gets its hot set (90 % after {busy.get('t90_seconds')} s)", guest.number("busy.status") == 0 and busy.get("t90_seconds") is not None, busy)
    check("SIGTERM: status 0, and no problem was reported", guest.number("calm.status") == 0 and metric(guest.json("calm.summary.json"), "problems_total") == 0, guest.output("calm"))
