// SPDX-License-Identifier: Apache-2.0
// H3 hash: the XOR of one seed per set bit of the page, in two stages (16 bits each, in two halves).
module h3 #(
    parameter int LANE = 0,
    parameter int BITS = 12
) (
    input  logic            clk,
    input  logic [31:0]     page,
    output logic [BITS-1:0] index  // two cycles later
);
  logic [BITS-1:0] low, high, low1, high1;

  always_comb begin
    low  = '0;
    high = '0;
    for (int i = 0; i < 16; i++) begin
      low = low ^ ({BITS{page[i]}} & regs::SEEDS[(LANE*32+i)*32+:BITS]);
      high = high ^ ({BITS{page[i+16]}} & regs::SEEDS[(LANE*32+i+16)*32+:BITS]);
    end
  end

  always_ff @(posedge clk) begin
    low1  <= low;
    high1 <= high;
    index <= low1 ^ high1;
  end
endmodule
