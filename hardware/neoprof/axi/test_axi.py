# SPDX-License-Identifier: Apache-2.0
"""NeoProf behind AXI4-Lite, with the AXI manager of cocotbext-axi, random pauses on all channels, and two unrelated clocks.

The expected results come from counting accesses in Python; registers are those of registers.md. `run.py` runs this.
"""

import itertools
import os
import random
from collections import Counter

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

RESET, SET_THRESHOLD, GET_NR_HOT_PAGE, GET_HOT_PAGE, STATUS = 0x100, 0x200, 0x300, 0x400, 0xB10
GET_NR_ACCESS, GET_NR_DROPPED, SHAPE = 0xB18, 0xB20, 0xB30
NONE = (1 << 64) - 1
BASE, PAGES = 0x40_0000_0000, 4096
SEED = int(os.environ.get("SEED", "1"))


class Unit:
    """The unit with its manager, in reset until `start`."""

    def __init__(self, dut):
        self.dut, self.random = dut, random.Random(SEED)
        cocotb.start_soon(Clock(dut.clk, 10, unit="ns").start())
        cocotb.start_soon(Clock(dut.mem_clk, 7, unit="ns").start())
        self.port = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), dut.clk, dut.rst)
        channels = [self.port.write_if.aw_channel, self.port.write_if.w_channel, self.port.write_if.b_channel,
                    self.port.read_if.ar_channel, self.port.read_if.r_channel]
        for channel in channels:
            channel.set_pause_generator(self.pauses())

    def pauses(self):
        often = self.random.choice([0.0, 0.3, 0.8])
        own = random.Random(self.random.random())
        return (own.random() < often for _ in itertools.count())

    async def start(self):
        dut = self.dut
        dut.rst.value = dut.mem_rst.value = 1
        dut.read_seen.value = dut.write_seen.value = 0
        dut.base.value, dut.pages.value = BASE, PAGES
        await ClockCycles(dut.clk, 200)
        await RisingEdge(dut.mem_clk)
        dut.rst.value = dut.mem_rst.value = 0
        await self.idle()

    async def read(self, register):
        answer = await self.port.read(register, 8)
        assert answer.resp == AxiResp.OKAY
        return int.from_bytes(answer.data, "little")

    async def write(self, register, value):
        answer = await self.port.write(register, value.to_bytes(8, "little"))
        assert answer.resp == AxiResp.OKAY

    async def idle(self):
        while await self.read(STATUS):
            pass

    async def access(self, reads, writes):
        """One list of byte addresses for each channel; both transfer in every cycle that they can."""
        dut = self.dut
        for read, write in itertools.zip_longest(reads, writes):
            await RisingEdge(dut.mem_clk)
            dut.read_seen.value, dut.write_seen.value = read is not None, write is not None
            dut.read_addr.value, dut.write_addr.value = read or 0, write or 0
        await RisingEdge(dut.mem_clk)
        dut.read_seen.value = dut.write_seen.value = 0
        await ClockCycles(dut.mem_clk, 100)
        await self.idle()


def line(page, at):
    return BASE + 4096 * page + 64 * (at % 64)


@cocotb.test()
async def hot_pages_are_those_accessed_more_often_than_the_threshold(dut):
    unit = Unit(dut)
    await unit.start()
    assert await unit.read(SHAPE) & 0xFF == int(dut.WIDTH_BITS.value)
    for threshold in (3, 10):
        await unit.write(RESET, 1)
        await unit.write(SET_THRESHOLD, threshold)
        await unit.idle()
        pages = unit.random.sample(range(PAGES), 12)
        asked = [page for page in pages for _ in range(unit.random.choice([threshold - 1, threshold, threshold + 1, 3 * threshold]))]
        unit.random.shuffle(asked)
        is_write = [unit.random.random() < 0.3 for _ in asked]
        # Below and above the memory that is counted.
        outside = [BASE - 64, BASE + 4096 * PAGES, 0]
        reads = [None if is_write[at] else line(page, at) for at, page in enumerate(asked)] + outside
        # A write in the cycle of the read after it.
        writes = [None] + [line(page, at) if is_write[at] else None for at, page in enumerate(asked)] + outside
        await unit.access(reads, writes)
        assert int(dut.access_missed.value) == 0
        assert await unit.read(GET_NR_ACCESS) + await unit.read(GET_NR_DROPPED) == len(asked)
        hot = {page for page, count in Counter(asked).items() if count > threshold}
        assert await unit.read(GET_NR_HOT_PAGE) == len(hot)
        found = [await unit.read(GET_HOT_PAGE) for _ in hot]
        assert sorted(found) == sorted(hot), "each hot page once"
        assert await unit.read(GET_HOT_PAGE) == NONE


@cocotb.test()
async def parts_of_a_word_reach_no_register(dut):
    unit = Unit(dut)
    await unit.start()
    await unit.write(SET_THRESHOLD, 5)
    for register, length in [(SET_THRESHOLD, 4), (SET_THRESHOLD + 4, 4), (SET_THRESHOLD + 2, 1)]:
        answer = await unit.port.write(register, bytes([9] * length))
        assert answer.resp == AxiResp.SLVERR
    assert await unit.read(SET_THRESHOLD) == 5
    await unit.access([line(7, at) for at in range(9)], [])
    assert (await unit.port.read(GET_HOT_PAGE + 4, 4)).resp == AxiResp.SLVERR
    assert await unit.read(GET_NR_HOT_PAGE) == 1
    assert await unit.read(GET_HOT_PAGE) == 7, "no read of a part has taken it"


@cocotb.test()
async def requests_of_both_kinds_at_once_are_all_answered(dut):
    unit = Unit(dut)
    await unit.start()
    for round in range(40):
        value = unit.random.randrange(1 << 16)
        written = cocotb.start_soon(unit.write(SET_THRESHOLD, value))
        shape = cocotb.start_soon(unit.read(SHAPE))
        await written
        assert await shape & 0xFF == int(dut.WIDTH_BITS.value)
        assert await unit.read(SET_THRESHOLD) == value, f"round {round}"


@cocotb.test()
async def writes_that_find_no_room_are_counted(dut):
    unit = Unit(dut)
    await unit.start()
    await unit.access([line(1, at) for at in range(60)], [line(2, at) for at in range(60)])
    missed = int(dut.access_missed.value)
    assert missed == 60 - 16, "16 wait until the reads end"
    counted = await unit.read(GET_NR_ACCESS) + await unit.read(GET_NR_DROPPED)
    assert counted == 120 - missed
