# SPDX-License-Identifier: Apache-2.0
"""The emulated computer: a fast node with the processors, a slow node without, and the address ranges of the slow one.

Four shapes. `numa`: both nodes are plain memory; only the firmware's tables (SRAT, SLIT, HMAT) distinguish them. `three`: node 1 has half of the
slow memory, node 2 the other half, which is slower still. `sockets`: nodes 0 and 1 have half of the processors and of the fast memory each, nodes 2
and 3 half of the slow memory, 2 near socket 0 and 3 near socket 1. `cxl`: the slow node is a CXL memory expander that the guest sets up
(guest/cxl-up). None models speed: latencies and bandwidths exist in the tables only.

Three modes. `concurrent`: several processors, real time. `interleaved`: the same, but one thread of the host emulates them in turns, so there are
no races of single accesses, and no thread runs code that another one has patched. `deterministic`: one processor, whose clock counts
instructions; idle time is skipped, and counters repeat within a percent, whatever the load of the host.
"""

from dataclasses import dataclass

from .cache import LabError

GIB = 1 << 30
MIB = 1 << 20
# The speeds of a processor whose clock counts instructions, in millions a second: an instruction takes 2^N ns.
SHIFTS = {1000: 0, 500: 1, 250: 2}


@dataclass
class Machine:
    fast: int = GIB
    slow: int = 2 * GIB
    shape: str = "numa"
    mode: str = "concurrent"
    cpus: int = 2
    seed: int = 1
    mips: int = 250
    fast_latency_ns: int = 70
    slow_latency_ns: int = 200
    link_latency_ns: int = 60  # between sockets
    fast_bandwidth: str = "200G"
    slow_bandwidth: str = "50G"

    def check(self, qemu_major):
        if self.shape == "cxl" and self.slow % (256 * MIB):
            raise LabError(f"a CXL expander cannot have {self.slow >> 20}M", "--slow must be a multiple of 256M in the shape cxl")
        if self.shape == "cxl" and qemu_major < 11:
            raise LabError(f"QEMU {qemu_major} does not support the shape cxl: its CXL memory is a hundred times too slow", "lab/lab fetch --refresh")
        if self.shape == "sockets" and (self.cpus % 2 or self.fast % (2 * MIB)) or self.shape != "numa" and self.slow % (2 * MIB):
            raise LabError(f"the shape {self.shape} divides processors or memory by two", "give even numbers with --cpus, --fast and --slow")
        if self.mode == "deterministic" and self.cpus != 1:
            raise LabError(f"deterministic mode does not support {self.cpus} processors", "--cpus 1, or --mode concurrent")

    def arguments(self):
        """QEMU's arguments for processors, memory and time."""
        return [*self._time(), *(self._cxl() if self.shape == "cxl" else self._nodes())]

    def kernel_words(self):
        return ["nokaslr"] if self.mode == "deterministic" else []

    def slow_ranges(self):
        """Guest-physical ranges [lo, hi) of slow memory.

        q35 leaves a hole below 4 GiB: RAM of 2816 MiB or more is split at 2 GiB and continues at 4 GiB; less RAM fits below the
        hole. Slow nodes follow the fast ones. A CXL window starts at the first 256 MiB boundary after the host bridge's
        registers (1 MiB), which follow the RAM above 4 GiB.
        """
        ram = self.fast + (0 if self.shape == "cxl" else self.slow)
        below = ram if ram < 2816 * MIB else 2 * GIB
        if self.shape == "cxl":
            registers = 4 * GIB + ram - below
            window = -(-(registers + MIB) // (256 * MIB)) * (256 * MIB)
            return [(window, window + self.slow)]
        ranges = [(self.fast, below), (4 * GIB + max(0, self.fast - below), 4 * GIB + ram - below)]
        return [(lo, hi) for lo, hi in ranges if lo < hi]

    def _time(self):
        # Without ERMS the kernel copies pages word by word. TCG emulates `rep movsb` byte by byte, up to five
        # times slower.
        cpu = "max,-erms,-fsrm,-fsrs"
        if self.shape == "cxl":
            cpu += ",-hypervisor"  # else the kernel refuses to flush its caches, and so to commit a region
        words = ["-cpu", cpu, "-smp", f"{self.cpus},sockets=2" if self.shape == "sockets" else self.cpus]
        if self.mode != "deterministic":
            return [*words, "-accel", f"tcg,thread={'multi' if self.mode == 'concurrent' else 'single'}"]
        return [*words, "-accel", "tcg,thread=single", "-icount", f"shift={SHIFTS[self.mips]},sleep=off", "-seed", self.seed,
                "-rtc", "base=2026-01-01T00:00:00,clock=vm"]

    def _layout(self):
        """Each node's memory, its level (the fastest is 0), and the socket that it is nearest to; those of level 0 have the processors."""
        if self.shape == "sockets":
            return [(self.fast // 2, 0, 0), (self.fast // 2, 0, 1), (self.slow // 2, 1, 0), (self.slow // 2, 1, 1)]
        if self.shape == "three":
            return [(self.fast, 0, 0), (self.slow // 2, 1, 0), (self.slow // 2, 2, 0)]
        return [(self.fast, 0, 0), (self.slow, 1, 0)]

    def _nodes(self):
        layout = list(enumerate(self._layout()))
        sockets = [socket for _, (_, level, socket) in layout if level == 0]
        each = self.cpus // len(sockets)
        words = ["-machine", "q35,hmat=on,sata=off,smbus=off,usb=off", "-m", f"{(self.fast + self.slow) >> 20}M"]
        for node, (memory, level, socket) in layout:
            own = f"cpus={socket * each}-{socket * each + each - 1}" if level == 0 else f"initiator={socket}"
            words += ["-object", f"memory-backend-ram,size={memory},id=m{node}", "-numa", f"node,nodeid={node},memdev=m{node},{own}"]
        for node, (_, level, socket) in layout:
            for other, (_, other_level, other_socket) in layout[node + 1:]:
                words += ["-numa", f"dist,src={node},dst={other},val={10 + 10 * (other_level - level) + 8 * (socket != other_socket)}"]
        latencies = [self.fast_latency_ns, self.slow_latency_ns, 2 * self.slow_latency_ns]
        bandwidths = [self.fast_bandwidth, self.slow_bandwidth, self.slow_bandwidth]
        for initiator in sockets:
            for node, (_, level, socket) in layout:
                latency = latencies[level] + (0 if socket == initiator else self.link_latency_ns)
                for kind, value in [("latency", latency), ("bandwidth", bandwidths[level])]:
                    words += ["-numa", f"hmat-lb,initiator={initiator},target={node},hierarchy=memory,data-type=access-{kind},{kind}={value}"]
        return words

    def _cxl(self):
        return ["-machine", f"q35,cxl=on,sata=off,smbus=off,usb=off,cxl-fmw.0.targets.0=cxl.1,cxl-fmw.0.size={self.slow}",
                "-m", f"{self.fast >> 20}M",
                "-object", f"memory-backend-ram,size={self.fast},id=fast", "-object", f"memory-backend-ram,size={self.slow},id=slow",
                "-numa", f"node,nodeid=0,memdev=fast,cpus=0-{self.cpus - 1}",
                "-device", "pxb-cxl,bus_nr=12,bus=pcie.0,id=cxl.1", "-device", "cxl-rp,port=0,bus=cxl.1,id=port0,chassis=0,slot=2",
                "-device", "cxl-type3,bus=port0,volatile-memdev=slow,id=expander,sn=0x1"]


def size(text):
    """Parses a size such as 400M or 2G into bytes."""
    units = {"K": 10, "M": 20, "G": 30}
    if text[-1:].upper() not in units or not text[:-1].isdigit() or int(text[:-1]) == 0:
        raise LabError(f"'{text}' is not a memory size", "write it like 400M or 2G")
    return int(text[:-1]) << units[text[-1].upper()]
