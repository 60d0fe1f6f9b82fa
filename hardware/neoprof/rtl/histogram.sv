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
    // Copies all bins, highest first; no access may be in progress.
    input  logic                    copy,
    input  logic [5:0]              copy_bin,
    // The copy.
    input  logic [5:0]              bin,
    output logic [WIDTH_BITS:0]     counters  // one cycle later
);
  logic [COUNTER_BITS:0] scaled;
  logic [5:0] entered_bin, bin1, bin2;
  logic enters, enters1, enters2, copy1, copy2;
  logic [WIDTH_BITS:0] entered, above;
  logic [WIDTH_BITS:0] copied[64];

  // If count + 8 = 1fff × 2^e and all bits below the fraction are zero, the counter enters the bin (e - 3,
  // fff).
  always_comb begin
    scaled = {1'b0, count} + (COUNTER_BITS + 1)'(8);
    entered_bin = '0;
    enters = 1'b0;
    for (int e = 3; e < 11; e++) begin
      if (e <= COUNTER_BITS && scaled >> e == (COUNTER_BITS + 1)'(1)) begin
        entered_bin = {3'(e - 3), 3'(scaled >> (e - 3))};
        enters = grew && scaled == (scaled >> (e - 3)) << (e - 3);
      end
    end
  end

  rmw_ram #(
      .ADDR_BITS(6),
      .DATA_BITS(WIDTH_BITS + 1)
  ) entries (
      .clk,
      .addr(copy ? copy_bin : entered_bin),
      .old(entered),
      .write(enters2),
      .next(entered + 1'b1),
      .clear,
      .clear_row
  );

  always_ff @(posedge clk) begin
    enters1 <= enters && !copy;
    enters2 <= enters1;
    copy1 <= copy;
    copy2 <= copy1;
    bin1 <= copy_bin;
    bin2 <= bin1;
    if (copy2) begin
      copied[bin2] <= (bin2 == 0 ? {1'b1, {WIDTH_BITS{1'b0}}} : entered) - (&bin2 ? '0 : above);
      above <= entered;
    end
    counters <= copied[bin];
  end
endmodule
