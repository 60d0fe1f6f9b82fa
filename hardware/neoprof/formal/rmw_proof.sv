// SPDX-License-Identifier: Apache-2.0
// Claim for rmw_ram: a read returns the word as it was last written in the order of accesses, at every distance
// and with any accesses between. The solver chooses addresses, gaps, writes and their data, the initial
// contents of memory and registers, and the word that is checked.
module rmw_proof #(
    parameter int ADDR_BITS = 6,
    parameter int DATA_BITS = 2,
    parameter int BANK_BITS = 1
) (
    input logic                 clk,
    input logic                 write,    // of the access two cycles ago
    input logic [DATA_BITS-1:0] data,
    input logic [ADDR_BITS-1:0] addr,
    input logic [ADDR_BITS-1:0] watched
);
  logic [DATA_BITS-1:0] old, last;
  logic [ADDR_BITS-1:0] addr1, addr2, watched1;
  logic [2:0] time_now = 0;
  logic running, write_now;

  // Accesses in progress at power-up end after three cycles; then the word is cleared.
  assign running = time_now == 7;
  assign write_now = write && running;

  rmw_ram #(
      .ADDR_BITS(ADDR_BITS),
      .DATA_BITS(DATA_BITS),
      .BANK_BITS(BANK_BITS)
  ) ram (
      .clk,
      .addr,
      .old,
      .write(write_now),
      .next(data),
      .clear(time_now == 3),
      .clear_row(watched[ADDR_BITS-BANK_BITS-1:0])
  );

  always_ff @(posedge clk) begin
    watched1 <= watched;
    if (!running) time_now <= time_now + 1'b1;
    addr1 <= addr;
    addr2 <= addr1;
    last <= time_now == 3 ? '0 : write_now && addr2 == watched ? data : last;
  end

  always_comb begin
    assume (time_now == 0 || watched == watched1);
    if (running && addr2 == watched) assert (old == last);
  end
endmodule
