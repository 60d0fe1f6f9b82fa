// SPDX-License-Identifier: Apache-2.0
// The hot-page detector: takes one page per cycle; reports hot pages thirteen cycles later.
//
//   cycle  0, 1  H3                                10  second half of the minimum
//          2     the lanes begin (sketch_lane.sv)  11  the minimum is compared with the limit
//          9     minimum of the counters           12  a page that is hot, new and finds room is reported
module detector #(
    parameter int WIDTH_BITS = 12,
    parameter int DEPTH = 2,
    parameter int COUNTER_BITS = 16,
    parameter int BANK_BITS = 0
) (
    input  logic                    clk,
    input  logic                    rst,
    input  logic                    forget, // the pages in progress
    // cycle 0
    input  logic                    valid,
    input  logic [31:0]             page,
    // cycle 11: a page is hot if its count exceeds the limit, or reaches it while the hotlist is in use.
    input  logic                    use_hotlist,
    input  logic                    limit_over, // beyond every count
    input  logic [COUNTER_BITS-1:0] limit,
    // cycle 12
    input  logic                    queue_full,
    input  logic                    queue_last, // at most one page less than full
    input  logic                    hotlist_full,
    input  logic                    hotlist_last,
    // cycle 13
    output logic                    to_queue,
    output logic                    to_hotlist,
    output logic                    withheld,
    output logic                    hotlist, // the list that the page belongs to
    output logic [31:0]             hot_page,
    output logic [COUNTER_BITS-1:0] hot_count,
    // Of the first lane, for the histogram: cycle 9.
    output logic                    grew,
    output logic [COUNTER_BITS-1:0] grown,
    input  logic                             clear,
    input  logic [WIDTH_BITS-BANK_BITS-6:0]  clear_row
);
  localparam int PAIRS = (DEPTH + 1) / 2;

  logic [11:1] on;  // a page is in this cycle
  logic [32*13-1:0] pages; // of cycles 1 to 13
  logic [DEPTH*COUNTER_BITS-1:0] after9;
  logic [PAIRS*COUNTER_BITS-1:0] least10;
  logic [COUNTER_BITS-1:0] least11, least12, least13;
  logic [DEPTH-1:0] was_hot, was_hot_if_ahead;
  logic hot12, hotlist12, all_hot12, all_hot_if_ahead12, fresh, room;
  logic [5:1] reports;

  always_ff @(posedge clk) begin
    on <= rst ? '0 : {on[10:1], valid};
    pages <= {pages[0+:32*12], page};
    for (int pair = 0; pair < PAIRS; pair++) begin
      least10[pair*COUNTER_BITS+:COUNTER_BITS] <= after9[2*pair*COUNTER_BITS+:COUNTER_BITS];
      if (2 * pair + 1 < DEPTH && after9[(2*pair+1)%DEPTH*COUNTER_BITS+:COUNTER_BITS] < after9[2*pair*COUNTER_BITS+:COUNTER_BITS])
        least10[pair*COUNTER_BITS+:COUNTER_BITS] <= after9[(2*pair+1)%DEPTH*COUNTER_BITS+:COUNTER_BITS];
    end
    least11 <= least10[0+:COUNTER_BITS];
    if (least10[(PAIRS-1)*COUNTER_BITS+:COUNTER_BITS] < least10[0+:COUNTER_BITS])
      least11 <= least10[(PAIRS-1)*COUNTER_BITS+:COUNTER_BITS];
    least12 <= least11;
    least13 <= least12;
    hot12 <= on[11] && !limit_over && {least11, use_hotlist} > {limit, 1'b0};
    hotlist12 <= use_hotlist;
    all_hot12 <= &was_hot;
    all_hot_if_ahead12 <= &was_hot_if_ahead;
    reports <= {reports[4:1], fresh && room};
    to_queue <= fresh && room && !hotlist12;
    to_hotlist <= fresh && room && hotlist12;
    withheld <= fresh && !room;
    hotlist <= hotlist12;
    if (forget) begin
      reports <= '0;
      to_queue <= 1'b0;
      to_hotlist <= 1'b0;
      withheld <= 1'b0;
    end
  end

  // A page that is being added takes the last place.
  assign room = hotlist12 ? !hotlist_full && !(hotlist_last && to_hotlist) : !queue_full && !(queue_last && to_queue);
  assign fresh = hot12 && !all_hot12 && !(all_hot_if_ahead12 && reports[1]);
  assign grew = on[9];
  assign grown = after9[COUNTER_BITS-1:0];
  assign hot_page = pages[32*12+:32];
  assign hot_count = least13;

  for (genvar lane = 0; lane < DEPTH; lane++) begin : g_lane
    logic [WIDTH_BITS-1:0] index2;

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
        .valid(on[2]),
        .index(index2),
        .after(after9[lane*COUNTER_BITS+:COUNTER_BITS]),
        .reports,
        .hot(was_hot[lane]),
        .hot_if_ahead(was_hot_if_ahead[lane]),
        .clear,
        .clear_row
    );
  end
endmodule
