// SPDX-License-Identifier: Apache-2.0
// NeoProf with standard ports: registers by AXI4-Lite, accesses from two observed request channels.
//
//   read and write requests ─► access_stream ─► neoprof ◄─ axi_lite ◄─ AXI4-Lite
//        (mem_clk)                                            (clk)
//
// A reference for integration on a card. The integrator decodes the channels: for CXL.mem, a transfer that reads data or writes
// it, with the address on the device. Of a host's bus, the address in its physical memory, and `base` where the device's begins.
module neoprof_axi #(
    parameter int WIDTH_BITS = 19,
    parameter int DEPTH = 2,
    parameter int COUNTER_BITS = 16,
    parameter int BANK_BITS = 3,
    parameter int FIFO_BITS = 14,
    parameter int RING_BITS = 10,
    parameter int CROSSING_BITS = 7
) (
    input  logic        mem_clk,
    input  logic        mem_rst,
    input  logic        read_seen,
    input  logic [51:0] read_addr,
    input  logic        write_seen,
    input  logic [51:0] write_addr,
    input  logic [51:0] base,
    input  logic [31:0] pages,
    output logic        access_lost,
    output logic [31:0] access_missed,

    input  logic        clk,
    input  logic        rst,
    input  logic        s_axi_awvalid,
    output logic        s_axi_awready,
    input  logic [15:0] s_axi_awaddr,
    input  logic [ 2:0] s_axi_awprot,
    input  logic        s_axi_wvalid,
    output logic        s_axi_wready,
    input  logic [63:0] s_axi_wdata,
    input  logic [ 7:0] s_axi_wstrb,
    output logic        s_axi_bvalid,
    input  logic        s_axi_bready,
    output logic [ 1:0] s_axi_bresp,
    input  logic        s_axi_arvalid,
    output logic        s_axi_arready,
    input  logic [15:0] s_axi_araddr,
    input  logic [ 2:0] s_axi_arprot,
    output logic        s_axi_rvalid,
    input  logic        s_axi_rready,
    output logic [63:0] s_axi_rdata,
    output logic [ 1:0] s_axi_rresp
);
  logic access, access_write, bus_valid, bus_ready, bus_write, bus_answer;
  logic [31:0] access_page;
  logic [15:0] bus_addr;
  logic [63:0] bus_data, bus_read;

  access_stream stream (
      .clk(mem_clk),
      .rst(mem_rst),
      .read_seen,
      .read_addr,
      .write_seen,
      .write_addr,
      .base,
      .pages,
      .access,
      .access_write,
      .access_page,
      .missed(access_missed)
  );

  axi_lite port (
      .clk,
      .rst,
      .awvalid(s_axi_awvalid),
      .awready(s_axi_awready),
      .awaddr(s_axi_awaddr),
      .wvalid(s_axi_wvalid),
      .wready(s_axi_wready),
      .wdata(s_axi_wdata),
      .wstrb(s_axi_wstrb),
      .bvalid(s_axi_bvalid),
      .bready(s_axi_bready),
      .bresp(s_axi_bresp),
      .arvalid(s_axi_arvalid),
      .arready(s_axi_arready),
      .araddr(s_axi_araddr),
      .rvalid(s_axi_rvalid),
      .rready(s_axi_rready),
      .rdata(s_axi_rdata),
      .rresp(s_axi_rresp),
      .bus_valid,
      .bus_ready,
      .bus_write,
      .bus_addr,
      .bus_data,
      .bus_answer,
      .bus_read
  );

  neoprof #(
      .WIDTH_BITS(WIDTH_BITS),
      .DEPTH(DEPTH),
      .COUNTER_BITS(COUNTER_BITS),
      .BANK_BITS(BANK_BITS),
      .FIFO_BITS(FIFO_BITS),
      .RING_BITS(RING_BITS),
      .CROSSING_BITS(CROSSING_BITS)
  ) unit (
      .mem_clk,
      .mem_rst,
      .access,
      .access_write,
      .access_page,
      .access_lost,
      .mem_clear(),
      .mem_restart(),
      .mem_pause(),
      .clk,
      .rst,
      .bus_valid,
      .bus_ready,
      .bus_write,
      .bus_addr,
      .bus_data,
      .bus_answer,
      .bus_read,
      .access_taken()
  );

  logic unused; // every access to a register is alike, secure or not
  assign unused = &{1'b0, s_axi_awprot, s_axi_arprot};
endmodule
