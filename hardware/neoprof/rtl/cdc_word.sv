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
  logic [BITS-1:0] held;
  logic ask, ask_meta, ask_seen, answer, answer_meta, answer_seen;

  always_ff @(posedge in_clk) begin
    {answer_seen, answer_meta} <= {answer_meta, answer};
    if (answer_seen == ask) begin
      held <= in_data;
      ask  <= !ask;
    end
    if (in_rst) begin
      held <= '0;
      ask <= 1'b0;
      answer_seen <= 1'b0;
      answer_meta <= 1'b0;
    end
  end

  always_ff @(posedge out_clk) begin
    {ask_seen, ask_meta} <= {ask_meta, ask};
    if (ask_seen != answer) begin
      out_data <= held;
      answer   <= ask_seen;
    end
    if (out_rst) begin
      out_data <= '0;
      answer <= 1'b0;
      ask_seen <= 1'b0;
      ask_meta <= 1'b0;
    end
  end
endmodule
