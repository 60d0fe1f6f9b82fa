// SPDX-License-Identifier: Apache-2.0
// A CXL hotness monitoring unit, always-on mode: its registers, and the hotlist, a ring buffer read without
// side effects. It follows public driver drafts, not the CXL specification.
module chmu #(
    parameter int COUNTER_BITS = 16,
    parameter int RING_BITS = 10
) (
    input  logic                    clk,
    input  logic                    rst,
    input  logic                    clear, // in progress
    // Registers: the address comes one cycle before the rest.
    input  logic [15:0]             addr,
    input  logic [15:0]             addr1,
    input  logic                    write1,
    input  logic [63:0]             data1,
    output logic [63:0]             read1,
    output logic                    reset, // requested
    // Which accesses are tracked, and from which count a page is hot.
    output logic                    enabled,
    output logic [31:0]             theta,
    input  logic [31:16]            page,
    input  logic                    page_write,
    output logic                    tracked,
    // Hot pages.
    input  logic                    push,
    input  logic                    withheld,
    input  logic [31:0]             hot_page,
    input  logic [COUNTER_BITS-1:0] hot_count,
    output logic                    room
);
  localparam int ENTRY_BITS = 32 + COUNTER_BITS;

  logic [ENTRY_BITS-1:0] ring[1 << RING_BITS];
  logic [ENTRY_BITS-1:0] entry1;
  logic [RING_BITS-1:0] head, tail, fill;
  logic [31:0] threshold;
  logic [2:0] track;  // reads, writes, both
  logic [63:0] conf1, bitmap;
  logic [15:0] notify;
  logic overflow, level;

  assign room = tail + 1'b1 != head;
  assign fill = tail - head + 1'b1;
  assign reset = write1 && addr1 == regs::CHMU_CONF0 && data1[regs::CHMU_CONF0_RESET_LOW];
  assign tracked = |(track & {1'b1, page_write, !page_write}) && page[31:22] == 0 && bitmap[page[21:16]];

  always_ff @(posedge clk) begin
    theta <= threshold == 0 ? 0 : threshold - 1;
    entry1 <= ring[RING_BITS'((addr - regs::CHMU_HOTLIST) >> 3)];
    if (push) begin
      ring[tail] <= {hot_page, hot_count};
      tail <= tail + 1'b1;
      if (notify != 0 && 16'(fill) >= notify) level <= 1'b1;
    end
    if (withheld) overflow <= 1'b1;

    if (write1) begin
      case (addr1)
        regs::CHMU_CONF0: begin
          threshold <= data1[regs::CHMU_CONF0_THRESHOLD_LOW+:32];
          track <= data1[2:0];
          enabled <= data1[regs::CHMU_CONF0_ENABLE_LOW];
        end
        regs::CHMU_CONF1: conf1 <= data1;
        regs::CHMU_CONF2: notify <= data1[15:0];
        regs::CHMU_STATUS: begin
          if (data1[regs::CHMU_STATUS_OVERFLOW_LOW]) overflow <= 1'b0;
          if (data1[regs::CHMU_STATUS_LEVEL_LOW]) level <= 1'b0;
        end
        regs::CHMU_RING: head <= data1[RING_BITS-1:0];
        regs::CHMU_BITMAP: bitmap <= data1;
        default: ;
      endcase
    end

    if (rst || clear) begin
      head <= '0;
      tail <= '0;
      overflow <= 1'b0;
      level <= 1'b0;
    end
    if (rst) begin
      threshold <= '0;
      track <= '0;
      enabled <= 1'b0;
      conf1 <= '0;
      notify <= '0;
      bitmap <= '1;
    end
  end

  always_comb begin
    read1 = '0;
    case (addr1)
      regs::CHMU_COMMON_CAP0: read1 = 64'h0101;
      regs::CHMU_COMMON_CAP1: read1 = 64'h70;
      regs::CHMU_CAP0: read1 = 64'd1 << (regs::CHMU_CAP0_HOTLIST_ENTRIES_LOW + RING_BITS) | 64'h3800;
      regs::CHMU_CAP1: read1 = 64'd1 << regs::CHMU_CAP1_ALWAYS_ON_LOW | 64'd1 << regs::CHMU_CAP1_DOWN_SAMPLING_LOW | 64'h10;
      regs::CHMU_CAP2: read1 = 64'(regs::CHMU_BITMAP - regs::CHMU_COMMON_CAP0);
      regs::CHMU_CAP3: read1 = 64'(regs::CHMU_HOTLIST - regs::CHMU_COMMON_CAP0);
      regs::CHMU_CONF0: read1 = {threshold, 15'd0, enabled, 13'd0, track};
      regs::CHMU_CONF1: read1 = conf1;
      regs::CHMU_CONF2: read1 = 64'(notify);
      regs::CHMU_STATUS: begin
        read1[regs::CHMU_STATUS_ENABLED_LOW] = enabled;
        read1[regs::CHMU_STATUS_IN_PROGRESS_LOW] = clear;
        read1[regs::CHMU_STATUS_COUNTER_BITS_LOW+:8] = 8'(COUNTER_BITS);
        read1[regs::CHMU_STATUS_OVERFLOW_LOW] = overflow;
        read1[regs::CHMU_STATUS_LEVEL_LOW] = level;
      end
      regs::CHMU_RING: read1 = 64'(head) | 64'(tail) << regs::CHMU_RING_TAIL_LOW;
      regs::CHMU_BITMAP: read1 = bitmap;
      default:
      if (addr1[2:0] == 0 && addr1 >= regs::CHMU_HOTLIST && addr1 - regs::CHMU_HOTLIST < 16'd8 << RING_BITS) read1 = 64'(entry1);
    endcase
  end
endmodule
