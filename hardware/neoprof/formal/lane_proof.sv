// SPDX-License-Identifier: Apache-2.0
// Claim for sketch_lane: after an access, the counter is the number of accesses since it was cleared, or
// saturated. The solver chooses everything else, as in rmw_proof.sv.
module lane_proof #(
    parameter int WIDTH_BITS = 6,
    parameter int COUNTER_BITS = 4,
    parameter int BANK_BITS = 0
) (
    input logic                  clk,
    input logic                  valid,
    input logic [WIDTH_BITS-1:0] index,
    input logic [WIDTH_BITS-1:0] watched
);
  logic [COUNTER_BITS-1:0] after, truth;
  logic [WIDTH_BITS-1:0] index1, index2, watched1;
  logic [2:0] time_now = 0;
  logic running, valid1, valid2;

  assign running = time_now == 7;

  sketch_lane #(
      .WIDTH_BITS(WIDTH_BITS),
      .COUNTER_BITS(COUNTER_BITS),
      .BANK_BITS(BANK_BITS)
  ) lane (
      .clk,
      .index,
      .count(valid2 && running),
      .after,
      .clear(time_now == 3),
      .clear_row(watched[WIDTH_BITS-BANK_BITS-1:5])
  );

  always_ff @(posedge clk) begin
    watched1 <= watched;
    if (!running) time_now <= time_now + 1'b1;
    index1 <= index;
    index2 <= index1;
    valid1 <= valid;
    valid2 <= valid1;
    if (time_now == 3) truth <= '0;
    else if (running && valid2 && index2 == watched && !(&truth)) truth <= truth + 1'b1;
  end

  always_comb begin
    assume (time_now == 0 || watched == watched1);
    if (running && valid2 && index2 == watched) assert (after == (&truth ? truth : truth + 1'b1));
  end
endmodule
