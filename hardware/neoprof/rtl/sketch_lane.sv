// SPDX-License-Identifier: Apache-2.0
// One lane of the sketch: saturating counters, and for each a valid bit and a hot bit in words of 32. Clearing resets these bits
// only. Cycles are counted from the arrival of the index.
//
//   cycle  0  index                                   5  the counter, read or forwarded, plus one
//          0  valid bits are read                     6  the counter is written; it is output in 7
//          1  counters are read                       8  the hot bit is chosen
//          4  the valid bit is chosen                 9  the hot bit with all reports but the last two
//          5  hot bits are read                      10  all lanes decide on the report (detector.sv)
//                                                    12  hot bits are written
module sketch_lane #(
    parameter int WIDTH_BITS = 12,
    parameter int COUNTER_BITS = 16,
    parameter int BANK_BITS = 0
) (
    input  logic                    clk,
    // cycle 0
    input  logic                    valid,
    input  logic [WIDTH_BITS-1:0]   index,
    // cycle 7
    output logic [COUNTER_BITS-1:0] after, // the counter after this access
    // reports[k]: the access in cycle 10 + k is reported
    input  logic [5:1]              reports,
    // cycle 9
    output logic                    hot, // the hot bit is set, without a report of the access just ahead
    output logic                    hot_if_ahead, // it is set if the access just ahead is reported
    input  logic                             clear,
    input  logic [WIDTH_BITS-BANK_BITS-6:0]  clear_row
);
  localparam int WORD_BITS = WIDTH_BITS - 5;

  logic [7:1] same_word2, same_bit2, same3, same4, same5, same6, same7, same8;
  logic [2:1] same9;
  logic [7:1] same_word3, same_word4, same_word5, same_word6, same_word7, same_word8, same_word9;
  logic [WIDTH_BITS-1:0] index1, index2, index3, index4, index5;
  logic [4:0] bit6, bit7, bit8, bit9, bit10, bit11;
  logic [5:1] on;
  logic empty4, chosen9, far9, ones6;
  logic [COUNTER_BITS-1:0] counter, after6, unused;
  logic [COUNTER_BITS:0] sum;
  logic [31:0] valids_stored, valids_old, hots_stored, hots_old;

  match #(
      .BITS(WORD_BITS)
  ) words (
      .clk,
      .valid,
      .word(index[WIDTH_BITS-1:5]),
      .same(same_word2)
  );

  match #(
      .BITS(5)
  ) bits (
      .clk,
      .valid,
      .word(index[4:0]),
      .same(same_bit2)
  );

  always_ff @(posedge clk) begin
    on <= {on[4:1], valid};
    {index5, index4, index3, index2, index1} <= {index4, index3, index2, index1, index};
    {bit11, bit10, bit9, bit8, bit7, bit6} <= {bit10, bit9, bit8, bit7, bit6, index5[4:0]};
    same3 <= same_word2 & same_bit2;
    {same8, same7, same6, same5, same4} <= {same7, same6, same5, same4, same3};
    same9 <= same8[2:1];
    same_word3 <= same_word2;
    {same_word9, same_word8, same_word7, same_word6, same_word5, same_word4} <= {
      same_word8, same_word7, same_word6, same_word5, same_word4, same_word3
    };
    empty4 <= !valids_stored[index3[4:0]];
    chosen9 <= hots_stored[bit8];
    far9 <= |(same8[7:3] & reports);
    after6 <= sum[COUNTER_BITS-1:0];
    ones6 <= sum[COUNTER_BITS];
    after <= after6 | {COUNTER_BITS{ones6}};
  end

  // Saturates: the carry sets all bits.
  assign sum = {1'b0, counter} + 1'b1;

  assign hot = chosen9 || far9 || (same9[2] && reports[1]);
  assign hot_if_ahead = hot || same9[1];

  rmw_ram #(
      .ADDR_BITS(WORD_BITS),
      .DATA_BITS(32),
      .BANK_BITS(BANK_BITS)
  ) valids (
      .clk,
      .valid,
      .addr(index[WIDTH_BITS-1:5]),
      .same(same_word2[5:1]),
      .stored(valids_stored),
      .zero(1'b0),
      .old(valids_old),
      .next(valids_old | (32'd1 << index4[4:0])),
      .ones(1'b0),
      .clear,
      .clear_row
  );

  // A counter whose valid bit was not set when it was read is 0, unless its write is forwarded.
  rmw_ram #(
      .ADDR_BITS(WIDTH_BITS),
      .DATA_BITS(COUNTER_BITS),
      .BANK_BITS(BANK_BITS)
  ) counters (
      .clk,
      .valid(on[1]),
      .addr(index1),
      .same(same3[5:1]),
      .stored(unused),
      .zero(empty4),
      .old(counter),
      .next(sum[COUNTER_BITS-1:0]),
      .ones(sum[COUNTER_BITS]),
      .clear(1'b0),
      .clear_row('0)
  );

  rmw_ram #(
      .ADDR_BITS(WORD_BITS),
      .DATA_BITS(32),
      .BANK_BITS(BANK_BITS),
      .WAIT(2)
  ) hots (
      .clk,
      .valid(on[5]),
      .addr(index5[WIDTH_BITS-1:5]),
      .same(same_word9),
      .stored(hots_stored),
      .zero(1'b0),
      .old(hots_old),
      .next(hots_old | ({31'd0, reports[1]} << bit11)),
      .ones(1'b0),
      .clear,
      .clear_row
  );
endmodule
