// SPDX-License-Identifier: Apache-2.0
// One lane of the sketch: saturating counters, and their valid bits in words of 32. Clearing resets the valid
// bits only.
module sketch_lane #(
    parameter int WIDTH_BITS = 12,
    parameter int COUNTER_BITS = 16,
    parameter int BANK_BITS = 0
) (
    input  logic                    clk,
    // cycle t
    input  logic [WIDTH_BITS-1:0]   index,
    // cycle t+2
    input  logic                    count, // this access is to be counted
    output logic [COUNTER_BITS-1:0] after, // the counter after this access
    input  logic                             clear,
    input  logic [WIDTH_BITS-BANK_BITS-6:0]  clear_row
);
  localparam int BIT_BITS = 5;

  logic [BIT_BITS-1:0] bit1, bit2;
  logic [COUNTER_BITS-1:0] counter, was;
  logic [31:0] valid;

  always_ff @(posedge clk) begin
    bit1 <= index[BIT_BITS-1:0];
    bit2 <= bit1;
  end

  assign was = valid[bit2] ? counter : '0;
  assign after = &was ? was : was + 1'b1;

  rmw_ram #(
      .ADDR_BITS(WIDTH_BITS),
      .DATA_BITS(COUNTER_BITS),
      .BANK_BITS(BANK_BITS)
  ) counters (
      .clk,
      .addr(index),
      .old(counter),
      .write(count),
      .next(after),
      .clear(1'b0),
      .clear_row('0)
  );

  rmw_ram #(
      .ADDR_BITS(WIDTH_BITS - BIT_BITS),
      .DATA_BITS(32),
      .BANK_BITS(BANK_BITS)
  ) valids (
      .clk,
      .addr(index[WIDTH_BITS-1:BIT_BITS]),
      .old(valid),
      .write(count),
      .next(valid | (32'd1 << bit2)),
      .clear,
      .clear_row
  );
endmodule
