// SPDX-License-Identifier: Apache-2.0
// Samples one cycle per interval and counts reads and writes; also counts every access lost before the sketch.
// Runs on the memory controller's clock; `restart` starts a new interval.
module state_monitor (
    input  logic        clk,
    input  logic        rst,
    input  logic        read,
    input  logic        write,
    input  logic        lost,
    input  logic        clear,
    input  logic        restart,
    input  logic [31:0] pause, // cycles between two samples
    output logic [31:0] samples,
    output logic [31:0] reads,
    output logic [31:0] writes,
    output logic [31:0] dropped
);
  logic [31:0] wait_cycles; // before the next sample, after this cycle
  logic sampled;

  always_ff @(posedge clk) begin
    wait_cycles <= sampled ? pause : wait_cycles - 1;
    sampled <= sampled ? pause == 0 : wait_cycles == 1;
    if (sampled) samples <= samples + 1;
    if (sampled && read) reads <= reads + 1;
    if (sampled && write) writes <= writes + 1;
    if (lost) dropped <= dropped + 1;
    if (rst || clear) begin
      samples <= '0;
      reads   <= '0;
      writes  <= '0;
      dropped <= '0;
    end
    if (rst || clear || restart) sampled <= 1'b1;
  end
endmodule
