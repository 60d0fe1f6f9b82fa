// SPDX-License-Identifier: Apache-2.0
// A memory for read-modify-write, one word per cycle, without hazards at any distance. Every access writes.
//
//   stage  0        addr arrives; the banks are read
//          1, 2     the bank's word is selected
//          3        stored is output
//          3+WAIT   merge: the newest write of the accesses two or more ahead, else the stored word
//          4+WAIT   old is output, with the write of the access just ahead; next is input
//          5+WAIT   the word is written
//
// A read in stage 0 misses the writes of the LAST = 5 + WAIT accesses ahead. (The last coincides with the read; the memory may
// return anything then.) same[d] says which of them had this address (match.sv).
module rmw_ram #(
    parameter int ADDR_BITS = 12,
    parameter int DATA_BITS = 16,
    parameter int BANK_BITS = 0,
    parameter int WAIT = 0
) (
    input  logic                 clk,
    // stage 0
    input  logic                 valid,
    input  logic [ADDR_BITS-1:0] addr,
    // stage 2+WAIT
    input  logic [5+WAIT:1]      same,
    // stage 3
    output logic [DATA_BITS-1:0] stored,
    // stage 3+WAIT
    input  logic                 zero, // the stored word counts as 0
    // stage 4+WAIT
    output logic [DATA_BITS-1:0] old,
    input  logic [DATA_BITS-1:0] next,
    input  logic                 ones, // all bits of next are to be 1
    // Writes 0 to one row of all banks, and nothing else. No access may come in the LAST cycles before the end.
    input  logic                           clear,
    input  logic [ADDR_BITS-BANK_BITS-1:0] clear_row
);
  localparam int BANKS = 1 << BANK_BITS;
  localparam int ROW_BITS = ADDR_BITS - BANK_BITS;
  localparam int LAST = 5 + WAIT;

  logic [LAST:1] on;
  logic [ADDR_BITS-1:0] at[1:LAST];
  logic [DATA_BITS-1:0] word2, waited, merged, merge;
  logic [DATA_BITS-1:0] next1, last_write;
  logic ones1;
  logic [DATA_BITS-1:0] written[2:LAST-1]; // written[k]: the write of the access in stage LAST - 1 + k
  logic [LAST:2] newest;
  logic same1, same2, write;
  logic [ADDR_BITS-1:0] write_addr;

  assign write = on[LAST];
  assign write_addr = at[LAST];

  always_ff @(posedge clk) begin
    on <= {on[LAST-1:1], valid};
    at[1] <= addr;
    for (int k = 2; k <= LAST; k++) at[k] <= at[k-1];
    // Of the accesses two or more ahead, the nearest with this address.
    for (int d = 2; d <= LAST; d++) newest[d] <= same[d] && (same[LAST:2] & ((LAST - 1)'(1) << (d - 2)) - 1'b1) == 0;
    same1 <= same[1];
    same2 <= same1;
    stored <= word2;
    merged <= merge;
    next1 <= next;
    ones1 <= ones;
    written[2] <= last_write;
    for (int k = 3; k < LAST; k++) written[k] <= written[k-1];
  end

  generate
    if (WAIT == 0) begin : g_now
      assign waited = stored;
    end else begin : g_wait
      logic [DATA_BITS-1:0] line[WAIT];
      always_ff @(posedge clk) begin
        line[0] <= stored;
        for (int k = 1; k < WAIT; k++) line[k] <= line[k-1];
      end
      assign waited = line[WAIT-1];
    end
  endgenerate

  always_comb begin
    merge = (|newest || zero) ? '0 : waited;
    merge |= {DATA_BITS{newest[2]}} & last_write;
    for (int d = 3; d <= LAST; d++) merge |= {DATA_BITS{newest[d]}} & written[d-1];
  end
  assign last_write = next1 | {DATA_BITS{ones1}};
  assign old = same2 ? last_write : merged;

  generate
    if (BANK_BITS == 0) begin : g_flat
      (* no_rw_check *) logic [DATA_BITS-1:0] words[1 << ROW_BITS];
      logic [DATA_BITS-1:0] word1;
      always_ff @(posedge clk) begin
        if (write || clear) words[clear ? clear_row : write_addr] <= clear ? '0 : last_write;
        word1 <= words[addr];
        word2 <= word1;
      end
    end else begin : g_banks
      logic [DATA_BITS-1:0] read2[BANKS];
      for (genvar bank = 0; bank < BANKS; bank++) begin : g_bank
        localparam bit [BANK_BITS-1:0] THIS = bank[BANK_BITS-1:0];
        (* no_rw_check *) logic [DATA_BITS-1:0] words[1 << ROW_BITS];
        logic [DATA_BITS-1:0] read1;
        always_ff @(posedge clk) begin
          if (clear || (write && write_addr[ADDR_BITS-1:ROW_BITS] == THIS))
            words[clear ? clear_row : write_addr[ROW_BITS-1:0]] <= clear ? '0 : last_write;
          if (addr[ADDR_BITS-1:ROW_BITS] == THIS) read1 <= words[addr[ROW_BITS-1:0]];
          read2[bank] <= read1;
        end
      end
      assign word2 = read2[at[2][ADDR_BITS-1:ROW_BITS]];
    end
  endgenerate
endmodule
