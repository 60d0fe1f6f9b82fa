// SPDX-License-Identifier: Apache-2.0
// Claims for hot_fifo: what the host pops is what was pushed, in order, each page once; none is lost or invented, and the queue
// never holds more than its capacity. The solver chooses pushes, pops, their times, and the page that is followed.
module list_proof #(
    parameter int ADDR_BITS = 2
) (
    input logic       clk,
    input logic       want_push,
    input logic       want_pop,
    input logic [3:0] followed, // the number of the page that is checked
    input logic [1:0] page
);
  logic [3:0] pushed, popped, followed1;
  logic [1:0] content;
  logic [ADDR_BITS:0] waiting;
  logic [31:0] oldest;
  logic [1:0] time_now = 0;
  logic running, full, last, push, room, pop, some, some1, asked1, asked2;

  assign running = time_now == 2;
  // As in detector.sv and neoprof.sv: a decision becomes a push one cycle later; a pop is decided on what waits, one cycle before
  // the page is read and two before it is removed; the next comes later.
  assign room = !full && !(last && push);
  assign some = waiting != 0;

  hot_fifo #(
      .ADDR_BITS(ADDR_BITS)
  ) list (
      .clk,
      .clear(!running),
      .push(push),
      .page({30'd0, page}),
      .full,
      .last,
      .waiting,
      .pop,
      .oldest
  );

  always_ff @(posedge clk) begin
    if (!running) time_now <= time_now + 1'b1;
    followed1 <= followed;
    push <= running && want_push && room;
    asked1 <= running && want_pop && !asked1 && !asked2 && !pop;
    some1 <= some;
    asked2 <= running && asked1;
    pop <= running && asked1 && some1;
    if (push && pushed == followed) content <= page;
    if (!running) begin
      pushed <= '0;
      popped <= '0;
      push <= 1'b0;
      asked1 <= 1'b0;
      asked2 <= 1'b0;
      pop <= 1'b0;
    end else begin
      pushed <= pushed + 4'(push);
      popped <= popped + 4'(pop);
    end
  end

  always_comb begin
    assume (time_now == 0 || followed == followed1);
    if (running) begin
      assert (32'(waiting) == 32'(4'(pushed - popped)));
      assert (32'(waiting) <= 1 << ADDR_BITS);
      if (asked1 && some1 && popped == followed) assert (oldest == {30'd0, content});
    end
  end
endmodule
