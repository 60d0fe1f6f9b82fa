// SPDX-License-Identifier: Apache-2.0
// Claim for sketch_lane: after an access, the counter is the number of accesses since it was cleared, or
// saturated. The solver chooses everything else, as in rmw_proof.sv.
module lane_proof #(
    parameter int WIDTH_BITS = 6,
    parameter int COUNTER_BITS = 2,
    parameter int BANK_BITS = 0
) (
    input logic                  clk,
    input logic                  valid,
    input logic [WIDTH_BITS-1:0] index,
    input logic [WIDTH_BITS-1:0] watched
);
  localparam int START = 12; // accesses in progress at power-up have ended, and the valid bit is cleared

  logic [COUNTER_BITS-1:0] after, truth;
  logic [WIDTH_BITS-1:0] watched1;
  logic [7:1] hit;
  logic [3:0] time_now = 0;
  logic running, hot_unused, hot_if_ahead_unused;

  assign running = time_now == 4'(START);

  sketch_lane #(
      .WIDTH_BITS(WIDTH_BITS),
      .COUNTER_BITS(COUNTER_BITS),
      .BANK_BITS(BANK_BITS)
  ) lane (
      .clk,
      .valid(valid && running),
      .index,
      .after,
      .reports('0),
      .hot(hot_unused),
      .hot_if_ahead(hot_if_ahead_unused),
      .clear(time_now == 4'(START - 3)),
      .clear_row(watched[WIDTH_BITS-BANK_BITS-1:5])
  );

  always_ff @(posedge clk) begin
    watched1 <= watched;
    if (!running) time_now <= time_now + 1'b1;
    hit <= {hit[6:1], valid && running && index == watched};
    if (!running) truth <= '0;
    else if (hit[7] && !(&truth)) truth <= truth + 1'b1;
  end

  always_comb begin
    assume (time_now == 0 || watched == watched1);
    if (running && hit[7]) assert (after == (&truth ? truth : truth + 1'b1));
  end
endmodule
