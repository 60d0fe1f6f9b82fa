// SPDX-License-Identifier: Apache-2.0
// Queue of hot pages for the host.
module hot_fifo #(
    parameter int ADDR_BITS = 10
) (
    input  logic               clk,
    input  logic               clear,
    input  logic               push,
    input  logic [31:0]        page,
    output logic               room,
    output logic [ADDR_BITS:0] waiting,
    input  logic               pop,
    output logic [31:0]        oldest  // one cycle after the last push or pop
);
  logic [31:0] pages[1 << ADDR_BITS];
  logic [ADDR_BITS:0] head, tail;

  assign waiting = tail - head;
  assign room = !waiting[ADDR_BITS];

  always_ff @(posedge clk) begin
    if (push) begin
      pages[tail[ADDR_BITS-1:0]] <= page;
      tail <= tail + 1'b1;
    end
    if (pop) head <= head + 1'b1;
    oldest <= pages[head[ADDR_BITS-1:0]];
    if (clear) begin
      head <= '0;
      tail <= '0;
    end
  end
endmodule
