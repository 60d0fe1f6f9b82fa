// SPDX-License-Identifier: Apache-2.0
// A FIFO between two clock domains (Cummings 2002): each side sees the other's pointer in Gray code, through a
// synchroniser.
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
  logic [ADDR_BITS:0] in_at, in_gray, in_seen; // in_seen: in_gray, synchronised to the reader's clock
  logic [ADDR_BITS:0] out_at, out_gray, out_seen;
  logic [ADDR_BITS:0] in_next, out_next;

  logic [ADDR_BITS:0] in_gray_next, out_gray_next, when_full;
  logic in_put, out_got;

  assign in_put = in_valid && !in_full;
  assign out_got = out_valid && out_take;
  assign when_full = {~out_seen[ADDR_BITS:ADDR_BITS-1], out_seen[ADDR_BITS-2:0]};
  assign out_data = words[out_at[ADDR_BITS-1:0]];
  assign in_next  = in_at + 1'b1;
  assign out_next = out_at + 1'b1;

  synchroniser #(
      .BITS(ADDR_BITS + 1)
  ) to_reader (
      .in_clk,
      .in(in_gray),
      .clk(out_clk),
      .rst(out_rst),
      .out(in_seen)
  );

  synchroniser #(
      .BITS(ADDR_BITS + 1)
  ) to_writer (
      .in_clk(out_clk),
      .in(out_gray),
      .clk(in_clk),
      .rst(in_rst),
      .out(out_seen)
  );

  always_ff @(posedge in_clk) begin
    in_full <= in_put ? in_gray_next == when_full : in_gray == when_full;
    if (in_put) begin
      words[in_at[ADDR_BITS-1:0]] <= in_data;
      in_at <= in_next;
      in_gray <= in_gray_next;
      in_gray_next <= (in_next + 1'b1) ^ ((in_next + 1'b1) >> 1);
    end
    if (in_rst) begin
      in_full <= 1'b0;
      in_at <= '0;
      in_gray <= '0;
      in_gray_next <= 1;
    end
  end

  always_ff @(posedge out_clk) begin
    out_valid <= out_got ? out_gray_next != in_seen : out_gray != in_seen;
    if (out_got) begin
      out_at <= out_next;
      out_gray <= out_gray_next;
      out_gray_next <= (out_next + 1'b1) ^ ((out_next + 1'b1) >> 1);
    end
    if (out_rst) begin
      out_valid <= 1'b0;
      out_at <= '0;
      out_gray <= '0;
      out_gray_next <= 1;
    end
  end
endmodule
