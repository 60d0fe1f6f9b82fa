// SPDX-License-Identifier: Apache-2.0
// Transfers a word to another clock domain repeatedly. The word is held while a toggle signals the other side
// to sample it, and is updated when the toggle has returned. So the other side always sees a complete former
// value.
module cdc_word #(
    parameter int BITS = 32
) (
    input  logic            in_clk,
    input  logic            in_rst,
    input  logic [BITS-1:0] in_data,
    input  logic            out_clk,
    input  logic            out_rst,
    output logic [BITS-1:0] out_data
);
  logic [BITS-1:0] held, captured;
  logic ask, ask_seen, answer, answer_seen;

  synchroniser forth (
      .in_clk,
      .in(ask),
      .clk(out_clk),
      .rst(out_rst),
      .out(ask_seen)
  );

  synchroniser back (
      .in_clk(out_clk),
      .in(answer),
      .clk(in_clk),
      .rst(in_rst),
      .out(answer_seen)
  );

  uncertain #(
      .BITS(BITS)
  ) capture (
      .in_clk,
      .in(held),
      .clk(out_clk),
      .captured
  );

  always_ff @(posedge in_clk) begin
    if (answer_seen == ask) begin
      held <= in_data;
      ask  <= !ask;
    end
    if (in_rst) begin
      held <= '0;
      ask  <= 1'b0;
    end
  end

  always_ff @(posedge out_clk) begin
    if (ask_seen != answer) begin
      out_data <= captured;
      answer   <= ask_seen;
    end
    if (out_rst) begin
      out_data <= '0;
      answer   <= 1'b0;
    end
  end
endmodule
