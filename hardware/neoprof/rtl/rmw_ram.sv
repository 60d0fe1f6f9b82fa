// SPDX-License-Identifier: Apache-2.0
// A memory for read-modify-write, one word per cycle, without hazards at any distance.
//
//   cycle  t    addr arrives; the banks are read
//          t+1  the bank's word is selected; addr is compared with the addresses one, two and three cycles ahead
//          t+2  old is output; next and write are input
//          t+3  the word is written
//
// A read in cycle t misses the writes of the three preceding cycles. (The third coincides with the read; the
// memory may return anything then.) These writes are forwarded, the latest first; older writes are in the
// memory.
module rmw_ram #(
    parameter int ADDR_BITS = 12,
    parameter int DATA_BITS = 16,
    parameter int BANK_BITS = 0
) (
    input  logic                 clk,
    // cycle t
    input  logic [ADDR_BITS-1:0] addr,
    // cycle t+2
    output logic [DATA_BITS-1:0] old,
    input  logic                 write,
    input  logic [DATA_BITS-1:0] next,
    // Writes 0 to one row of all banks; no access may be in progress.
    input  logic                           clear,
    input  logic [ADDR_BITS-BANK_BITS-1:0] clear_row
);
  localparam int BANKS = 1 << BANK_BITS;
  localparam int ROW_BITS = ADDR_BITS - BANK_BITS;

  logic [ADDR_BITS-1:0] addr1, addr2, addr3, addr4;
  logic [DATA_BITS-1:0] chosen, data2, next3, next4, next5;
  logic same3, same4, same5; // same address as the access one, two, three cycles ahead, which is then in stage 3, 4, 5
  logic write3, write4, write5;

  always_ff @(posedge clk) begin
    addr1 <= addr;
    addr2 <= addr1;
    addr3 <= addr2;
    addr4 <= addr3;
    data2 <= chosen;
    same3 <= addr1 == addr2;
    same4 <= addr1 == addr3;
    same5 <= addr1 == addr4;
    write3 <= write;
    write4 <= write3;
    write5 <= write4;
    next3 <= next;
    next4 <= next3;
    next5 <= next4;
  end

  always_comb begin
    old = data2;
    if (same5 && write5) old = next5;
    if (same4 && write4) old = next4;
    if (same3 && write3) old = next3;
  end

  generate
    if (BANK_BITS == 0) begin : g_flat
      (* no_rw_check *) logic [DATA_BITS-1:0] words[1 << ROW_BITS];
      always_ff @(posedge clk) begin
        if (write3 || clear) words[clear ? clear_row : addr3] <= clear ? '0 : next3;
        chosen <= words[addr];
      end
    end else begin : g_banks
      logic [BANKS*DATA_BITS-1:0] read;
      for (genvar bank = 0; bank < BANKS; bank++) begin : g_bank
        localparam bit [BANK_BITS-1:0] THIS = bank[BANK_BITS-1:0];
        (* no_rw_check *) logic [DATA_BITS-1:0] words[1 << ROW_BITS];
        always_ff @(posedge clk) begin
          if (clear || (write3 && addr3[ADDR_BITS-1:ROW_BITS] == THIS))
            words[clear ? clear_row : addr3[ROW_BITS-1:0]] <= clear ? '0 : next3;
          if (addr[ADDR_BITS-1:ROW_BITS] == THIS)
            read[bank*DATA_BITS+:DATA_BITS] <= words[addr[ROW_BITS-1:0]];
        end
      end
      assign chosen = read[addr1[ADDR_BITS-1:ROW_BITS]*DATA_BITS+:DATA_BITS];
    end
  endgenerate

endmodule
