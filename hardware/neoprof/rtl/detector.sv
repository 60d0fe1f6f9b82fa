// SPDX-License-Identifier: Apache-2.0
// The hot-page detector: takes one page per cycle; reports hot pages seven cycles later.
//
//   stage 0, 1  H3                     4  minimum of the counters, min > θ
//         2     counters are read      6  hot bits arrive; a page that is hot, new and finds room is reported
//         4     counters are updated
module detector #(
    parameter int WIDTH_BITS = 12,
    parameter int DEPTH = 2,
    parameter int COUNTER_BITS = 16,
    parameter int BANK_BITS = 0
) (
    input  logic                    clk,
    input  logic                    rst,
    input  logic                    valid,
    input  logic [31:0]             page,
    input  logic [31:0]             theta,
    input  logic                    room,      // for a hot page
    output logic                    report,
    output logic                    withheld,
    output logic [31:0]             hot_page,
    output logic [COUNTER_BITS-1:0] hot_count,
    output logic                    busy,
    // Of the first lane, for the histogram.
    output logic                    grew,
    output logic [COUNTER_BITS-1:0] grown,
    input  logic                             clear,
    input  logic [WIDTH_BITS-BANK_BITS-6:0]  clear_row
);
  logic [6:1] on;  // a page is in this stage
  logic [31:0] page1, page2, page3, page4, page5, page6;
  logic [DEPTH*COUNTER_BITS-1:0] after, after5;
  logic [DEPTH-1:0] was_hot;
  logic [COUNTER_BITS-1:0] least, least6;
  logic hot6;

  assign busy = |on;

  always_ff @(posedge clk) begin
    on <= rst ? '0 : {on[5:1], valid};
    page1 <= page;
    page2 <= page1;
    page3 <= page2;
    page4 <= page3;
    page5 <= page4;
    page6 <= page5;
    after5 <= after;
    least6 <= least;
    hot6 <= on[5] && 32'(least) > theta;
  end

  always_comb begin
    least = after5[COUNTER_BITS-1:0];
    for (int lane = 1; lane < DEPTH; lane++)
      if (after5[lane*COUNTER_BITS+:COUNTER_BITS] < least)
        least = after5[lane*COUNTER_BITS+:COUNTER_BITS];
  end

  assign report = hot6 && !(&was_hot) && room;
  assign withheld = hot6 && !(&was_hot) && !room;
  assign grew = on[5];
  assign grown = after5[COUNTER_BITS-1:0];
  assign hot_page = page6;
  assign hot_count = least6;

  for (genvar lane = 0; lane < DEPTH; lane++) begin : g_lane
    logic [WIDTH_BITS-1:0] index2, index3, index4;
    logic [4:0] bit5, bit6;
    logic [31:0] hot;

    always_ff @(posedge clk) begin
      index3 <= index2;
      index4 <= index3;
      bit5 <= index4[4:0];
      bit6 <= bit5;
    end

    h3 #(
        .LANE(lane),
        .BITS(WIDTH_BITS)
    ) hash (
        .clk,
        .page,
        .index(index2)
    );

    sketch_lane #(
        .WIDTH_BITS(WIDTH_BITS),
        .COUNTER_BITS(COUNTER_BITS),
        .BANK_BITS(BANK_BITS)
    ) counts (
        .clk,
        .index(index2),
        .count(on[4]),
        .after(after[lane*COUNTER_BITS+:COUNTER_BITS]),
        .clear,
        .clear_row
    );

    // Hot bits, in words of 32, cleared together with the valid bits.
    rmw_ram #(
        .ADDR_BITS(WIDTH_BITS - 5),
        .DATA_BITS(32),
        .BANK_BITS(BANK_BITS)
    ) hots (
        .clk,
        .addr(index4[WIDTH_BITS-1:5]),
        .old(hot),
        .write(report),
        .next(hot | (32'd1 << bit6)),
        .clear,
        .clear_row
    );
    assign was_hot[lane] = hot[bit6];
  end
endmodule
