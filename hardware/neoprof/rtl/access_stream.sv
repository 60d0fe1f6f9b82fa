// SPDX-License-Identifier: Apache-2.0
// Two observed request channels as one stream of page accesses, at most one per cycle.
//
// As in CXL.mem, reads and writes of lines come by channels of their own, and both can transfer in a cycle. A snoop cannot stall
// them. Reads go first; writes wait for a cycle without one. If too many wait, a write is missed, and counted.
module access_stream #(
    parameter int WAIT_BITS = 4 // log2 of the writes that can wait
) (
    input logic clk,
    input logic rst,

    // Transfers of the channels (valid and ready), with the addresses of their bytes
    input  logic        read_seen,
    input  logic [51:0] read_addr,
    input  logic        write_seen,
    input  logic [51:0] write_addr,
    // The memory that is counted: its first byte, a multiple of 4 KiB, and its pages
    input  logic [51:0] base,
    input  logic [31:0] pages,

    output logic        access,
    output logic        access_write,
    output logic [31:0] access_page, // from the start of that memory
    output logic [31:0] missed       // writes; wraps
);
  logic [40:0] read_page, write_page; // the highest bit: below the memory
  logic read1, write1, waits, full;
  logic [31:0] read_page1, write_page1;
  logic [31:0] waiting[1 << WAIT_BITS];
  logic [WAIT_BITS:0] head, tail;

  assign read_page = {1'b0, read_addr[51:12]} - {1'b0, base[51:12]};
  assign write_page = {1'b0, write_addr[51:12]} - {1'b0, base[51:12]};
  assign waits = head != tail;
  assign full = waits && head[WAIT_BITS-1:0] == tail[WAIT_BITS-1:0];

  always_ff @(posedge clk) begin
    read1 <= !rst && read_seen && read_page < 41'(pages);
    write1 <= !rst && write_seen && write_page < 41'(pages);
    read_page1 <= read_page[31:0];
    write_page1 <= write_page[31:0];

    if (write1 && !full) begin
      waiting[tail[WAIT_BITS-1:0]] <= write_page1;
      tail <= tail + 1'b1;
    end
    if (write1 && full) missed <= missed + 1'b1;

    access <= read1 || waits;
    access_write <= !read1;
    access_page <= read1 ? read_page1 : waiting[head[WAIT_BITS-1:0]];
    if (!read1 && waits) head <= head + 1'b1;

    if (rst) begin
      {head, tail} <= '0;
      missed <= '0;
      access <= 1'b0;
    end
  end

  logic unused;
  assign unused = &{1'b0, read_addr[11:0], write_addr[11:0], base[11:0], read_page[40:32], write_page[40:32]};
endmodule
