// SPDX-License-Identifier: Apache-2.0
// Queue of hot pages for the host.
module hot_fifo #(
    parameter int ADDR_BITS = 10
) (
    input  logic               clk,
    input  logic               clear,
    input  logic               push,
    input  logic [31:0]        page,
    output logic               full,
    output logic               last,    // at most one page less than full
    output logic [ADDR_BITS:0] waiting,
    input  logic               pop,     // a page was waiting two cycles before
    output logic [31:0]        oldest   // of the pages that were waiting in the cycle before
);
  logic [31:0] pages[1 << ADDR_BITS];
  logic [ADDR_BITS-1:0] head, tail;
  logic [ADDR_BITS:0] sum, more;
  logic unused, unused_too;

  // waiting + push - pop, in one addition.
  assign {sum, unused} = {waiting, 1'b1} + {{(ADDR_BITS + 1) {pop}}, push};
  // One more than that.
  assign {more, unused_too} = {waiting, 1'b1} + {(ADDR_BITS + 1)'(!pop), push};
  assign full = waiting[ADDR_BITS];

  always_ff @(posedge clk) begin
    if (push) begin
      pages[tail] <= page;
      tail <= tail + 1'b1;
    end
    if (pop) head <= head + 1'b1;
    oldest <= pages[head];
    waiting <= sum;
    last <= more[ADDR_BITS];
    if (clear) begin
      head <= '0;
      tail <= '0;
      waiting <= '0;
      last <= 1'b0;
    end
  end
endmodule
