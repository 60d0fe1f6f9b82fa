// SPDX-License-Identifier: Apache-2.0
// Histogram of the counters of the first lane, in 64 bins, without a sweep over the lane.
//
// Counters only grow by one until they are cleared. So it suffices to count how many counters have entered each
// bin: bin n holds those that entered it minus those that entered bin n + 1. Bin boundaries are such that count
// + 8 is a floating-point number with three fraction bits; the bin is its exponent and fraction.
module histogram #(
    parameter int WIDTH_BITS = 12,
    parameter int COUNTER_BITS = 16
) (
    input  logic                    clk,
    // A counter reached this count, or stays saturated there. The saturated value is not the start of a bin if
    // counters have four bits or more.
    input  logic                    grew,
    input  logic [COUNTER_BITS-1:0] count,
    input  logic                    clear,
    input  logic [5:0]              clear_row,
    // Copies all bins, highest first; no access may be in progress. A bin is copied within eight cycles.
    input  logic                    copy,
    input  logic [5:0]              copy_bin,
    // The copy.
    input  logic [5:0]              bin,
    output logic [WIDTH_BITS:0]     counters  // one cycle later
);
  logic [COUNTER_BITS:0] scaled1, scaled2;
  logic [10:3] leads2, starts2;
  logic [5:0] entered_bin, bin3, bin4;
  logic grew1, enters, enters3, enters4;
  logic [5:1] same;
  logic [8:3] copying;
  logic [5:0] copy_at[3:8];
  logic first6, last6;
  logic [WIDTH_BITS:0] entered, stored, above, from, less, difference;
  logic [WIDTH_BITS:0] copied[64];

  // If count + 8 = 1fff × 2^e and all bits below the fraction are zero, the counter enters the bin (e - 3,
  // fff).
  always_ff @(posedge clk) begin
    for (int e = 3; e < 11; e++) begin
      leads2[e] <= e <= COUNTER_BITS && scaled1 >> e == (COUNTER_BITS + 1)'(1);
      starts2[e] <= grew1 && (scaled1 & ((COUNTER_BITS + 1)'(1) << (e - 3)) - 1'b1) == 0;
    end
    scaled2 <= scaled1;
  end

  always_comb begin
    entered_bin = '0;
    enters = 1'b0;
    for (int e = 3; e < 11; e++) begin
      if (leads2[e]) entered_bin |= {3'(e - 3), 3'(scaled2 >> (e - 3))};
      enters |= leads2[e] && starts2[e];
    end
  end

  match #(
      .BITS(6),
      .LAST(5)
  ) compare (
      .clk,
      .valid(enters4),
      .word(bin4),
      .same
  );

  rmw_ram #(
      .ADDR_BITS(6),
      .DATA_BITS(WIDTH_BITS + 1)
  ) entries (
      .clk,
      .valid(enters4),
      .addr(bin4),
      .same,
      .stored,
      .zero(1'b0),
      .old(entered),
      .next(entered + 1'b1),
      .ones(1'b0),
      .clear,
      .clear_row
  );

  always_ff @(posedge clk) begin
    grew1 <= grew;
    scaled1 <= {1'b0, count} + (COUNTER_BITS + 1)'(8);
    enters3 <= enters;
    bin3 <= entered_bin;
    enters4 <= enters3 && !copy;
    bin4 <= copy ? copy_bin : bin3;

    // The memory is read in cycle 3 and its word arrives in cycle 6.
    copying <= {copying[7:3], copy};
    copy_at[3] <= copy_bin;
    for (int k = 4; k <= 8; k++) copy_at[k] <= copy_at[k-1];
    first6 <= copy_at[5] == 0;
    last6 <= &copy_at[5];
    if (copying[6]) begin
      from <= first6 ? {1'b1, {WIDTH_BITS{1'b0}}} : stored;
      less <= last6 ? '0 : above;
      above <= stored;
    end
    difference <= from - less;
    if (copying[8]) copied[copy_at[8]] <= difference;
    counters <= copied[bin];
  end
endmodule
