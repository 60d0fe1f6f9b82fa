// SPDX-License-Identifier: Apache-2.0
// An AXI4-Lite subordinate of 64 bits (AMBA IHI 0022) in front of NeoProf's registers.
//
// One request at a time. Writes go first, but while the response to one is taken, a read starts. A register is one word, and reading it may take an entry
// from a list. So an address inside a word, or a write of a part of a word, is answered with SLVERR and reaches no register.
// A write of no byte (all strobes 0) is answered with OKAY and reaches none.
module axi_lite (
    input logic clk,
    input logic rst,

    input  logic        awvalid,
    output logic        awready,
    input  logic [15:0] awaddr,
    input  logic        wvalid,
    output logic        wready,
    input  logic [63:0] wdata,
    input  logic [ 7:0] wstrb,
    output logic        bvalid,
    input  logic        bready,
    output logic [ 1:0] bresp,
    input  logic        arvalid,
    output logic        arready,
    input  logic [15:0] araddr,
    output logic        rvalid,
    input  logic        rready,
    output logic [63:0] rdata,
    output logic [ 1:0] rresp,

    // The registers' bus, see neoprof.sv.
    output logic        bus_valid,
    input  logic        bus_ready,
    output logic        bus_write,
    output logic [15:0] bus_addr,
    output logic [63:0] bus_data,
    input  logic        bus_answer,
    input  logic [63:0] bus_read
);
  localparam bit [1:0] OKAY = 2'b00;
  localparam bit [1:0] SLVERR = 2'b10;

  logic aw_held, w_held, ar_held; // requests that were accepted, and not answered
  logic [15:0] aw_addr, ar_addr;
  logic [63:0] w_data;
  logic [ 7:0] w_strb;
  logic busy, writing; // a request is at the registers; its kind
  logic start_write, can_read, start, legal, silent;

  assign awready = !aw_held;
  assign wready  = !w_held;
  assign arready = !ar_held;

  assign start_write = aw_held && w_held && !bvalid;
  assign can_read  = ar_held && !rvalid;
  assign start = !busy && (start_write || can_read);
  assign silent = start_write && w_strb == 0;
  assign legal = start_write ? aw_addr[2:0] == 0 && &w_strb : ar_addr[2:0] == 0;

  assign bus_valid = start && legal;
  assign bus_write = start_write;
  assign bus_addr  = start_write ? aw_addr : ar_addr;
  assign bus_data  = w_data;

  always_ff @(posedge clk) begin
    if (awvalid && awready) aw_addr <= awaddr;
    if (wvalid && wready) {w_data, w_strb} <= {wdata, wstrb};
    if (arvalid && arready) ar_addr <= araddr;
    if (awvalid && awready) aw_held <= 1'b1;
    if (wvalid && wready) w_held <= 1'b1;
    if (arvalid && arready) ar_held <= 1'b1;
    if (bvalid && bready) bvalid <= 1'b0;
    if (rvalid && rready) rvalid <= 1'b0;

    if (start) begin
      writing <= start_write;
      if (legal) begin
        busy <= bus_ready;
      end else if (start_write) begin
        {aw_held, w_held, bvalid} <= 3'b001;
        bresp <= silent ? OKAY : SLVERR;
      end else begin
        {ar_held, rvalid} <= 2'b01;
        rdata <= '0;
        rresp <= SLVERR;
      end
    end
    if (busy && bus_answer) begin
      busy <= 1'b0;
      if (writing) begin
        {aw_held, w_held, bvalid} <= 3'b001;
        bresp <= OKAY;
      end else begin
        {ar_held, rvalid} <= 2'b01;
        rdata <= bus_read;
        rresp <= OKAY;
      end
    end
    if (rst) {aw_held, w_held, ar_held, busy, bvalid, rvalid} <= '0;
  end
endmodule
