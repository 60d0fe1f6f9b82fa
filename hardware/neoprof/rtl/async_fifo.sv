// SPDX-License-Identifier: Apache-2.0
// A FIFO between two clock domains (Cummings 2002): each side sees the other's pointer in Gray code, after two
// registers.
module async_fifo #(
    parameter int DATA_BITS = 33,
    parameter int ADDR_BITS = 7
) (
    input  logic                 in_clk,
    input  logic                 in_rst,
    input  logic                 in_valid,
    output logic                 in_full, // an entry that arrives in this cycle is lost
    input  logic [DATA_BITS-1:0] in_data,
    input  logic                 out_clk,
    input  logic                 out_rst,
    output logic                 out_valid,
    input  logic                 out_take,
    output logic [DATA_BITS-1:0] out_data
);
  logic [DATA_BITS-1:0] words[1 << ADDR_BITS];
  logic [ADDR_BITS:0] in_at, in_gray, in_seen_meta, in_seen; // in_seen: in_gray, synchronised to the reader's clock
  logic [ADDR_BITS:0] out_at, out_gray, out_seen_meta, out_seen;

  assign in_full = in_gray == {~out_seen[ADDR_BITS:ADDR_BITS-1], out_seen[ADDR_BITS-2:0]};
  assign out_valid = out_gray != in_seen;
  assign out_data = words[out_at[ADDR_BITS-1:0]];

  logic [ADDR_BITS:0] in_next, out_next;
  assign in_next  = in_at + 1'b1;
  assign out_next = out_at + 1'b1;

  always_ff @(posedge in_clk) begin
    {out_seen, out_seen_meta} <= {out_seen_meta, out_gray};
    if (in_valid && !in_full) begin
      words[in_at[ADDR_BITS-1:0]] <= in_data;
      in_at <= in_next;
      in_gray <= in_next ^ (in_next >> 1);
    end
    if (in_rst) begin
      in_at <= '0;
      in_gray <= '0;
      out_seen_meta <= '0;
      out_seen <= '0;
    end
  end

  always_ff @(posedge out_clk) begin
    {in_seen, in_seen_meta} <= {in_seen_meta, in_gray};
    if (out_valid && out_take) begin
      out_at <= out_next;
      out_gray <= out_next ^ (out_next >> 1);
    end
    if (out_rst) begin
      out_at <= '0;
      out_gray <= '0;
      in_seen_meta <= '0;
      in_seen <= '0;
    end
  end
endmodule
