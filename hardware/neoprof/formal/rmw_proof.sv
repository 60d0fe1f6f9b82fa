// SPDX-License-Identifier: Apache-2.0
// Claim for rmw_ram: a read returns the word as it was last written in the order of accesses, at every distance
// and with any accesses between. The solver chooses addresses, gaps, writes and their data, the initial
// contents of memory and registers, and the word that is checked.
module rmw_proof #(
    parameter int ADDR_BITS = 6,
    parameter int DATA_BITS = 2,
    parameter int BANK_BITS = 1,
    parameter int WAIT = 0
) (
    input logic                 clk,
    input logic                 valid,
    input logic [DATA_BITS-1:0] data,
    input logic [ADDR_BITS-1:0] addr,
    input logic [ADDR_BITS-1:0] watched
);
  localparam int USE = 4 + WAIT;
  localparam int START = 2 * USE + 4; // accesses in progress at power-up have ended, and the word is cleared

  logic [DATA_BITS-1:0] old, last, stored_unused;
  logic [ADDR_BITS-1:0] watched1;
  logic [USE:1] hit, on;
  logic [5+WAIT:1] same;
  logic [4:0] time_now = 0;
  logic running, valid_now;

  assign running   = time_now == 5'(START);
  assign valid_now = valid && running;

  match #(
      .BITS(ADDR_BITS),
      .LAST(5 + WAIT)
  ) compare (
      .clk,
      .valid(valid_now),
      .word(addr),
      .same(same_early)
  );

  // The comparison takes two cycles; rmw_ram wants it in cycle 2 + WAIT.
  logic [5+WAIT:1] same_early, line1, line2;
  always_ff @(posedge clk) {line2, line1} <= {line1, same_early};
  assign same = WAIT == 0 ? same_early : WAIT == 1 ? line1 : line2;

  rmw_ram #(
      .ADDR_BITS(ADDR_BITS),
      .DATA_BITS(DATA_BITS),
      .BANK_BITS(BANK_BITS),
      .WAIT(WAIT)
  ) ram (
      .clk,
      .valid(valid_now),
      .addr,
      .same,
      .stored(stored_unused),
      .zero(1'b0),
      .old,
      .next(data),
      .ones(1'b0),
      .clear(time_now == 5'(START - 3)),
      .clear_row(watched[ADDR_BITS-BANK_BITS-1:0])
  );

  always_ff @(posedge clk) begin
    watched1 <= watched;
    if (!running) time_now <= time_now + 1'b1;
    hit <= {hit[USE-1:1], addr == watched};
    on <= {on[USE-1:1], valid_now};
    last <= !running ? '0 : on[USE] && hit[USE] ? data : last;
  end

  always_comb begin
    assume (time_now == 0 || watched == watched1);
    if (running && on[USE] && hit[USE]) assert (old == last);
  end
endmodule
