// SPDX-License-Identifier: Apache-2.0
// C interface of the Verilated NeoProf: three functions. dut.rs mirrors the structs.
#include <cstdint>
#include <memory>
#include "Vdut.h"
#include "verilated.h"

struct In {
    uint64_t bus_data;
    uint32_t page;
    uint16_t bus_addr;
    uint8_t mem_edge, core_edge, reset, access, write, bus_valid, bus_write;
};
struct Out {
    uint64_t bus_read;
    uint32_t pause;
    uint8_t lost, clear, restart, answer, ready, taken;
};
struct Dut {
    VerilatedContext context;
    std::unique_ptr<Vdut> top;
};

extern "C" Dut *dut_new(uint32_t seed) {
    auto *dut = new Dut;
    dut->context.randReset(2); // memories and registers have random contents at power-up
    dut->context.randSeed(static_cast<int>(seed));
    dut->top = std::make_unique<Vdut>(&dut->context);
    return dut;
}

extern "C" void dut_free(Dut *dut) { delete dut; }

extern "C" void dut_step(Dut *dut, const In *in, Out *out) {
    auto &top = *dut->top;
    top.rst = in->reset;
    top.mem_rst = in->reset;
    top.access = in->access;
    top.access_write = in->write;
    top.access_page = in->page;
    top.bus_valid = in->bus_valid;
    top.bus_write = in->bus_write;
    top.bus_addr = in->bus_addr;
    top.bus_data = in->bus_data;
    top.mem_clk = 0;
    top.clk = 0;
    top.eval();
    out->lost = top.access_lost;
    out->restart = top.mem_restart;
    out->answer = top.bus_answer;
    out->ready = top.bus_ready;
    out->clear = top.mem_clear;
    out->pause = top.mem_pause;
    out->taken = top.access_taken;
    out->bus_read = top.bus_read;
    top.mem_clk = in->mem_edge;
    top.clk = in->core_edge;
    top.eval();
}
