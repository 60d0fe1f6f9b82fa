// SPDX-License-Identifier: Apache-2.0
// Two registers in a row, which carry bits to another clock domain. Each bit must come from a register of `in_clk`.
module synchroniser #(
    parameter int BITS = 1
) (
    input  logic            in_clk,
    input  logic [BITS-1:0] in,
    input  logic            clk,
    input  logic            rst,
    output logic [BITS-1:0] out
);
  logic [BITS-1:0] first, captured;

  uncertain #(
      .BITS(BITS)
  ) capture (
      .in_clk,
      .in,
      .clk,
      .captured
  );

  always_ff @(posedge clk) {out, first} <= rst ? '0 : {first, captured};
endmodule
