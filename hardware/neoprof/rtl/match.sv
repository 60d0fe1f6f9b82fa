// SPDX-License-Identifier: Apache-2.0
// Compares each word with the words of the LAST cycles before. same[d], two cycles later: both are valid, and the word is equal
// to the one d cycles ahead.
module match #(
    parameter int BITS = 14,
    parameter int LAST = 7
) (
    input  logic            clk,
    input  logic            valid,
    input  logic [BITS-1:0] word,
    output logic [LAST:1]   same
);
  localparam int GROUPS = (BITS + 2) / 3; // three bits of both words fit into one LUT

  logic [3*GROUPS-1:0] now;
  logic [3*GROUPS*LAST-1:0] ahead; // the nearest lowest
  logic [LAST-1:0] valids;
  logic [LAST:1] valids1;
  logic [GROUPS-1:0] equal1[1:LAST];

  assign now = (3 * GROUPS)'(word);

  always_ff @(posedge clk) begin
    ahead   <= (3 * GROUPS * LAST)'({ahead, now});
    valids  <= LAST'({valids, valid});
    valids1 <= valids & {LAST{valid}};
    for (int d = 1; d <= LAST; d++) begin
      for (int g = 0; g < GROUPS; g++) equal1[d][g] <= now[3*g+:3] == ahead[3*(GROUPS*(d-1)+g)+:3];
      same[d] <= valids1[d] && &equal1[d];
    end
  end
endmodule
