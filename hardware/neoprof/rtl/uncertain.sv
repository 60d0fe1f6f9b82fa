// SPDX-License-Identifier: Apache-2.0
// What a register of `clk` captures from registers of `in_clk`: a bit that changes close to the edge of clk may be captured
// with its old or its new value. With SIMULATE_CROSSINGS the simulation chooses at random, bit by bit, for bits that changed
// at the last edge of in_clk and since the last edge of clk. In hardware this is a wire. The random bits are part of the
// simulated state, from its contents at power-up: $urandom depends on other simulations in the process.
module uncertain #(
    parameter int BITS = 1
) (
    input  logic            in_clk,
    input  logic [BITS-1:0] in,
    input  logic            clk,
    output logic [BITS-1:0] captured
);
`ifdef SIMULATE_CROSSINGS
  logic [BITS-1:0] earlier, seen, changed;
  logic [63:0] chance; // a linear congruential generator, whose upper half is random enough
  logic [31:0] flip;
  assign flip = chance[63:32];
  always_ff @(posedge in_clk) earlier <= in;
  always_ff @(posedge clk) begin
    seen <= in;
    if (in != seen) chance <= chance * 64'd6364136223846793005 + 64'd1442695040888963407; // it may have been used
  end
  assign changed  = (in ^ earlier) & (in ^ seen);
  assign captured = in ^ (changed & BITS'({((BITS + 31) / 32) {flip}}));
`else
  logic unused;
  assign unused   = in_clk ^ clk;
  assign captured = in;
`endif
endmodule
