// SPDX-License-Identifier: Apache-2.0
// A CXL hotness monitoring unit, always-on mode: its registers, and the hotlist, a ring buffer read without
// side effects. It follows public driver drafts, not the CXL specification.
module chmu #(
    parameter int COUNTER_BITS = 16,
    parameter int RING_BITS = 10
) (
    input  logic                    clk,
    input  logic                    rst,
    input  logic                    wipe,     // empties the hotlist
    input  logic                    clearing, // a reset is in progress
    // Registers: the address in cycle 1; the data, and whether it is a write, in cycle 2.
    input  logic [15:0]             addr1,
    input  logic [31:0]             high1,    // the high byte, and the low byte / 8, one bit for each value
    input  logic [31:0]             low1,
    input  logic                    write2,
    input  logic [63:0]             data2,
    output logic                    reset2,   // requested
    output logic [63:0]             read3,    // registers
    output logic [63:0]             entry4,   // of the hotlist
    // Which accesses are tracked, and at which count a page is hot.
    output logic                    enabled,
    output logic [31:0]             threshold,
    output logic [2:0]              track,    // reads, writes, both
    output logic [63:0]             bitmap,
    // Hot pages.
    input  logic                    push,
    input  logic                    withheld,
    input  logic [31:0]             hot_page,
    input  logic [COUNTER_BITS-1:0] hot_count,
    output logic                    full,
    output logic                    last      // at most one entry less than full
);
  localparam int ENTRY_BITS = 32 + COUNTER_BITS;

  logic [ENTRY_BITS-1:0] ring[1 << RING_BITS];
  logic [ENTRY_BITS-1:0] entry3, word4;
  logic [RING_BITS-1:0] head, tail, used, slot2, past3, used3, head3, head4, delta3;
  logic [RING_BITS:0] less4, less4_more, less4_more2, more, more2; // two's complement
  logic [RING_BITS-1:0] sum;
  logic [3:0] unused;
  logic pushed, overflow, level, is_entry2, is_entry3, inside4, head_write3, head_write4;
  logic [63:0] conf1;
  logic [15:0] notify;
  logic at_cap0, at_cap1, at_unit0, at_unit1, at_unit2, at_unit3;
  logic at_conf0, at_conf1, at_conf2, at_status, at_ring, at_bitmap;
  logic [63:0] status, constants;

  // used + push - released, in one addition; less4 is the negated number. With one more, or two, the sum reaches the capacity.
  assign {unused[3], sum, unused[0]} = {1'b0, used, 1'b1} + {head_write4 ? less4 : '0, push};
  assign {more, unused[1]} = {1'b0, used, 1'b1} + {head_write4 ? less4_more : (RING_BITS + 1)'(1), push};
  assign {more2, unused[2]} = {1'b0, used, 1'b1} + {head_write4 ? less4_more2 : (RING_BITS + 1)'(2), push};
  assign reset2 = write2 && at_conf0 && data2[regs::CHMU_CONF0_RESET_LOW];

  always_ff @(posedge clk) begin
    at_cap0 <= high1[regs::CHMU_COMMON_CAP0[12:8]] && low1[regs::CHMU_COMMON_CAP0[7:3]];
    at_cap1 <= high1[regs::CHMU_COMMON_CAP1[12:8]] && low1[regs::CHMU_COMMON_CAP1[7:3]];
    at_unit0 <= high1[regs::CHMU_CAP0[12:8]] && low1[regs::CHMU_CAP0[7:3]];
    at_unit1 <= high1[regs::CHMU_CAP1[12:8]] && low1[regs::CHMU_CAP1[7:3]];
    at_unit2 <= high1[regs::CHMU_CAP2[12:8]] && low1[regs::CHMU_CAP2[7:3]];
    at_unit3 <= high1[regs::CHMU_CAP3[12:8]] && low1[regs::CHMU_CAP3[7:3]];
    at_conf0 <= high1[regs::CHMU_CONF0[12:8]] && low1[regs::CHMU_CONF0[7:3]];
    at_conf1 <= high1[regs::CHMU_CONF1[12:8]] && low1[regs::CHMU_CONF1[7:3]];
    at_conf2 <= high1[regs::CHMU_CONF2[12:8]] && low1[regs::CHMU_CONF2[7:3]];
    at_status <= high1[regs::CHMU_STATUS[12:8]] && low1[regs::CHMU_STATUS[7:3]];
    at_ring <= high1[regs::CHMU_RING[12:8]] && low1[regs::CHMU_RING[7:3]];
    at_bitmap <= high1[regs::CHMU_BITMAP[12:8]] && low1[regs::CHMU_BITMAP[7:3]];
    is_entry2 <= addr1[2:0] == 0 && addr1 >= regs::CHMU_HOTLIST && addr1 < regs::CHMU_HOTLIST + (16'd8 << RING_BITS);
    slot2 <= RING_BITS'((addr1 - regs::CHMU_HOTLIST) >> 3);

    if (push) begin
      ring[tail] <= {hot_page, hot_count};
      tail <= tail + 1'b1;
    end
    used <= sum;
    full <= more[RING_BITS];
    last <= more2[RING_BITS];
    pushed <= push;

    if (write2) begin
      if (at_conf0) begin
        threshold <= data2[regs::CHMU_CONF0_THRESHOLD_LOW+:32];
        track <= data2[2:0];
        enabled <= data2[regs::CHMU_CONF0_ENABLE_LOW];
      end
      if (at_conf1) conf1 <= data2;
      if (at_conf2) notify <= data2[15:0];
      if (at_status && data2[regs::CHMU_STATUS_OVERFLOW_LOW]) overflow <= 1'b0;
      if (at_status && data2[regs::CHMU_STATUS_LEVEL_LOW]) level <= 1'b0;
      if (at_bitmap) bitmap <= data2;
    end
    if (withheld) overflow <= 1'b1;
    if (pushed && notify != 0 && 16'(used) >= notify) level <= 1'b1;

    // HEAD moves over entries that there are, or not at all.
    head_write3 <= write2 && at_ring;
    head3 <= data2[RING_BITS-1:0];
    delta3 <= data2[RING_BITS-1:0] - head;
    head_write4 <= head_write3 && delta3 <= used;
    head4 <= head3;
    less4 <= -{1'b0, delta3};
    less4_more <= (RING_BITS + 1)'(1) - {1'b0, delta3};
    less4_more2 <= (RING_BITS + 1)'(2) - {1'b0, delta3};
    if (head_write4) head <= head4;

    // A slot without an entry reads as 0.
    entry3 <= ring[slot2];
    past3 <= slot2 - head;
    used3 <= used;
    is_entry3 <= is_entry2;
    inside4 <= is_entry3 && past3 < used3;
    word4 <= entry3;

    if (rst || wipe) begin
      head <= '0;
      tail <= '0;
      used <= '0;
      full <= 1'b0;
      last <= 1'b0;
      pushed <= 1'b0;
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
      head_write3 <= 1'b0;
      head_write4 <= 1'b0;
    end
  end

  assign entry4 = inside4 ? 64'(word4) : '0;

  always_comb begin
    status = '0;
    status[regs::CHMU_STATUS_ENABLED_LOW] = enabled;
    status[regs::CHMU_STATUS_IN_PROGRESS_LOW] = clearing;
    status[regs::CHMU_STATUS_COUNTER_BITS_LOW+:8] = 8'(COUNTER_BITS);
    status[regs::CHMU_STATUS_OVERFLOW_LOW] = overflow;
    status[regs::CHMU_STATUS_LEVEL_LOW] = level;
    constants = '0;
    if (at_cap0) constants = 64'h0101;
    if (at_cap1) constants = 64'h70;
    if (at_unit0) constants = 64'd1 << (regs::CHMU_CAP0_HOTLIST_ENTRIES_LOW + RING_BITS) | 64'h3800;
    if (at_unit1) constants = 64'd1 << regs::CHMU_CAP1_ALWAYS_ON_LOW | 64'd1 << regs::CHMU_CAP1_DOWN_SAMPLING_LOW | 64'h10;
    if (at_unit2) constants = 64'(regs::CHMU_BITMAP - regs::CHMU_COMMON_CAP0);
    if (at_unit3) constants = 64'(regs::CHMU_HOTLIST - regs::CHMU_COMMON_CAP0);
  end

  always_ff @(posedge clk)
    read3 <= constants | {64{at_conf0}} & {threshold, 15'd0, enabled, 13'd0, track} | {64{at_conf1}} & conf1 |
             {64{at_conf2}} & 64'(notify) | {64{at_status}} & status | {64{at_bitmap}} & bitmap |
             {64{at_ring}} & (64'(head) | 64'(tail) << regs::CHMU_RING_TAIL_LOW);
endmodule
