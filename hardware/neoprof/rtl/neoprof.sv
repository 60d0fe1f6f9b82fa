// SPDX-License-Identifier: Apache-2.0
// NeoProf (NeoMem, MICRO 2024): counts the accesses to every page of a memory device and reports hot pages to
// the host.
//
//        mem_clk                          |   clk
//   access ─► async_fifo ─────────────────┼─► page monitor ─► detector ─► hot_fifo, or the hotlist of chmu
//      └────► state_monitor ─► cdc_word ──┼─► registers           └─► histogram
//
// Registers: a request is accepted in a cycle with bus_valid and bus_ready, and answered six cycles later, when the next may
// come. Cycles are counted from the one after its acceptance: it reads in cycle 2, writes in cycle 2 or 3. Offsets and
// contract: registers.md.
module neoprof #(
    parameter int WIDTH_BITS = 19, // log2 of the counters per lane: W
    parameter int DEPTH = 2,          // lanes: D
    parameter int COUNTER_BITS = 16,
    parameter int BANK_BITS = 3, // log2 of the banks per lane
    parameter int FIFO_BITS = 14, // log2 of the capacity of the hot-page queue
    parameter int RING_BITS = 10,     // log2 of the entries of the hotlist
    parameter int CROSSING_BITS = 7 // log2 of the accesses buffered between the clock domains
) (
    // The memory controller: at most one access per cycle.
    input  logic        mem_clk,
    input  logic        mem_rst,
    input  logic        access,
    input  logic        access_write,
    input  logic [31:0] access_page,
    output logic        access_lost, // not counted by the sketch, but by the state monitor
    // Events, for those who follow the unit's state: after this cycle
    output logic        mem_clear,   // the state monitor's counts are 0
    output logic        mem_restart, // the state monitor restarts
    output logic [31:0] mem_pause,   // with so many cycles between two samples

    // The host.
    input  logic        clk,
    input  logic        rst,
    input  logic        bus_valid,
    output logic        bus_ready,
    input  logic        bus_write,
    input  logic [15:0] bus_addr,
    input  logic [63:0] bus_data,
    output logic        bus_answer,
    output logic [63:0] bus_read,
    output logic        access_taken // an access leaves the crossing
);
  localparam int ROW_BITS = WIDTH_BITS - BANK_BITS - 5; // rows of valid and hot bits in a bank
  localparam int WALK_BITS = ROW_BITS > 6 ? ROW_BITS : 6; // at least the 64 bins of the histogram
  localparam int DRAIN_CYCLES = 28; // from the crossing to the histogram's memory, and some more

  // ---- mem_clk: the memory controller's side -----------------------------------------------------------------------

  logic [31:0] mem_samples, mem_reads, mem_writes, mem_dropped;
  logic cleared, restarted, mem_clear_ask, mem_restart_ask;

  logic crossing_full, arrived, run, arrived_write;
  logic [31:0] arrived_page;

  async_fifo #(
      .DATA_BITS(33),
      .ADDR_BITS(CROSSING_BITS)
  ) crossing (
      .in_clk(mem_clk),
      .in_rst(mem_rst),
      .in_valid(access),
      .in_full(crossing_full),
      .in_data({access_write, access_page}),
      .out_clk(clk),
      .out_rst(rst),
      .out_valid(arrived),
      .out_take(run),
      .out_data({arrived_write, arrived_page})
  );
  assign access_lost = access && crossing_full;
  assign access_taken = arrived && run;

  assign mem_clear = mem_clear_ask != cleared;
  assign mem_restart = mem_clear || mem_restart_ask != restarted;

  always_ff @(posedge mem_clk) begin
    cleared   <= mem_rst ? 1'b0 : mem_clear_ask;
    restarted <= mem_rst ? 1'b0 : mem_restart_ask;
  end

  state_monitor monitor (
      .clk(mem_clk),
      .rst(mem_rst),
      .read(access && !access_write),
      .write(access && access_write),
      .lost(access_lost),
      .clear(mem_clear),
      .restart(mem_restart),
      .pause(mem_pause),
      .samples(mem_samples),
      .reads(mem_reads),
      .writes(mem_writes),
      .dropped(mem_dropped)
  );

  // ---- clock domain crossing ---------------------------------------------------------------------------------------------------------

  logic [31:0] interval, pause, pause_sent, samples, reads, writes, dropped;
  logic clear_ask, restart_ask, clear_done, restart_done, want_mem_clear, want_restart, interval_written, counts_old;

  cdc_word #(
      .BITS(34)
  ) to_memory (
      .in_clk(clk),
      .in_rst(rst),
      .in_data({clear_ask, restart_ask, pause_sent}),
      .out_clk(mem_clk),
      .out_rst(mem_rst),
      .out_data({mem_clear_ask, mem_restart_ask, mem_pause})
  );

  cdc_word #(
      .BITS(130)
  ) from_memory (
      .in_clk(mem_clk),
      .in_rst(mem_rst),
      .in_data({cleared, restarted, mem_samples, mem_reads, mem_writes, mem_dropped}),
      .out_clk(clk),
      .out_rst(rst),
      .out_data({clear_done, restart_done, samples, reads, writes, dropped})
  );

  // ---- clk: requests -------------------------------------------------------------------------------------------------

  logic [5:0] stage; // of the request in progress
  logic write0, write1, write2, read2, read3, zero2;
  logic [15:0] addr0, addr1;
  logic [31:0] high1, low1; // the address is decoded in two halves
  logic [63:0] data0, data1, data2;
  logic at_reset, at_threshold, at_nr_hot, at_hot, at_hot3, at_samples, at_reads, at_writes, at_hist_en, at_nr_hist, at_hist, at_hist3;
  logic at_control, at_interval, at_status, at_accesses, at_dropped, at_withheld, at_shape;

  assign bus_ready  = stage[4:0] == 0;
  assign bus_answer = stage[5];

  always_ff @(posedge clk) begin
    stage  <= rst ? '0 : {stage[4:0], bus_valid && bus_ready};
    write0 <= bus_write;
    addr0  <= bus_addr;
    data0  <= bus_data;
    for (int k = 0; k < 32; k++) begin
      high1[k] <= addr0[15:8] == 8'(k);
      low1[k]  <= addr0[7:0] == 8'(8 * k);
    end
    write1 <= write0;
    addr1  <= addr0;
    data1  <= data0;
    write2 <= !rst && stage[1] && write1;
    read2  <= !rst && stage[1] && !write1;
    read3  <= !rst && read2;
    data2  <= data1;
    zero2  <= data1[31:0] == 0;
    at_reset <= high1[regs::RESET[12:8]] && low1[regs::RESET[7:3]];
    at_threshold <= high1[regs::SET_THRESHOLD[12:8]] && low1[regs::SET_THRESHOLD[7:3]];
    at_nr_hot <= high1[regs::GET_NR_HOT_PAGE[12:8]] && low1[regs::GET_NR_HOT_PAGE[7:3]];
    at_hot <= high1[regs::GET_HOT_PAGE[12:8]] && low1[regs::GET_HOT_PAGE[7:3]];
    at_hot3 <= at_hot;
    at_samples <= high1[regs::GET_NR_SAMPLE[12:8]] && low1[regs::GET_NR_SAMPLE[7:3]];
    at_reads <= high1[regs::GET_RD_CNT[12:8]] && low1[regs::GET_RD_CNT[7:3]];
    at_writes <= high1[regs::GET_WR_CNT[12:8]] && low1[regs::GET_WR_CNT[7:3]];
    at_hist_en <= high1[regs::SET_HIST_EN[12:8]] && low1[regs::SET_HIST_EN[7:3]];
    at_nr_hist <= high1[regs::GET_NR_HIST_BIN[12:8]] && low1[regs::GET_NR_HIST_BIN[7:3]];
    at_hist <= high1[regs::GET_HIST[12:8]] && low1[regs::GET_HIST[7:3]];
    at_hist3 <= at_hist;
    at_control <= high1[regs::CONTROL[12:8]] && low1[regs::CONTROL[7:3]];
    at_interval <= high1[regs::SAMPLE_INTERVAL[12:8]] && low1[regs::SAMPLE_INTERVAL[7:3]];
    at_status <= high1[regs::STATUS[12:8]] && low1[regs::STATUS[7:3]];
    at_accesses <= high1[regs::GET_NR_ACCESS[12:8]] && low1[regs::GET_NR_ACCESS[7:3]];
    at_dropped <= high1[regs::GET_NR_DROPPED[12:8]] && low1[regs::GET_NR_DROPPED[7:3]];
    at_withheld <= high1[regs::GET_NR_WITHHELD[12:8]] && low1[regs::GET_NR_WITHHELD[7:3]];
    at_shape <= high1[regs::SHAPE[12:8]] && low1[regs::SHAPE[7:3]];
  end

  logic valid1; // an access left the crossing

  // ---- clk: clearing and copying; accesses wait in the crossing ----------------------------------------------

  typedef enum logic [4:0] {RUN = 1, DRAIN = 2, CLEAR = 4, COPY = 8, SETTLE = 16} phase_t;
  phase_t phase;
  logic wipe, want_copy, clear, copy, busy, clearing, chmu_reset, some_bins, hist_some3, settled;
  logic [WALK_BITS-1:0] walk, row;
  logic clear_row, ends_drain, ends_copy, ends_settle, ends_clear;
  logic [4:0] quiet; // cycles until the pipeline is empty
  logic [6:0] bins_left;
  logic [5:0] bin;

  assign run   = phase[0];
  assign clear = phase[2];
  assign copy  = phase[3];

  always_ff @(posedge clk) begin
    wipe <= write2 && at_reset && data2[0] || chmu_reset;
    if (valid1) quiet <= 5'(DRAIN_CYCLES);
    else if (quiet != 0) quiet <= quiet - 1'b1;

    row <= walk;
    clear_row <= clear;
    walk <= run ? '0 : walk + 1'b1;
    // In the next cycle, the walk is at its end.
    ends_drain <= walk[4:0] == 5'd30;
    ends_copy <= walk[5:0] == 6'd62;
    ends_settle <= walk[2:0] == 3'd6;
    ends_clear <= &walk[WALK_BITS-1:1] && !walk[0];
    case (phase)
      RUN: if (want_copy) phase <= DRAIN;
      DRAIN:
      if (ends_drain) begin
        phase <= COPY;
        walk <= '0;
        want_copy <= 1'b0;
      end
      CLEAR: if (ends_clear) phase <= RUN;
      COPY: if (ends_copy) phase <= SETTLE;
      default: if (ends_settle) phase <= RUN;
    endcase

    settled <= phase[4] && ends_settle;
    if (settled && !want_copy) begin
      bins_left <= 7'd64;
      bin <= '0;
    end

    some_bins <= bins_left != 0;
    if (read2 && at_hist && some_bins) begin
      bins_left <= bins_left - 1'b1;
      bin <= bin + 1'b1;
    end
    hist_some3 <= some_bins;
    if (write2 && at_hist_en && data2[0]) begin
      want_copy <= 1'b1;
      bins_left <= '0;
    end

    // A reset holds from here on; what is in the pipeline is forgotten, and clearing takes longer than that.
    if (rst || wipe) begin
      phase <= CLEAR;
      want_copy <= 1'b0;
      bins_left <= '0;
      walk <= '0;
      ends_clear <= 1'b0;
    end
    if (rst || wipe) settled <= 1'b0;
    if (rst) begin
      wipe <= 1'b0;
      quiet <= 5'(DRAIN_CYCLES);
    end
  end

  // A wish for the memory's side waits for the answer to the one before.
  always_ff @(posedge clk) begin
    if (want_mem_clear && clear_ask == clear_done) begin
      clear_ask <= !clear_ask;
      want_mem_clear <= 1'b0;
    end
    if (wipe) want_mem_clear <= 1'b1;
    counts_old <= want_mem_clear || clear_ask != clear_done;

    interval_written <= write2 && at_interval;
    if (write2 && at_interval) interval <= {data2[31:1], data2[0] || zero2};
    pause <= interval - 1;
    if (want_restart && restart_ask == restart_done) begin
      restart_ask <= !restart_ask;
      pause_sent <= pause;
      want_restart <= 1'b0;
    end
    if (interval_written) want_restart <= 1'b1;

    clearing <= clear || want_mem_clear || clear_ask != clear_done;
    busy <= !run || settled || want_copy || arrived || valid1 || quiet != 0 || want_mem_clear || clear_ask != clear_done ||
            interval_written || want_restart || restart_ask != restart_done;
    if (rst) begin
      clear_ask <= 1'b0;
      restart_ask <= 1'b0;
      want_mem_clear <= 1'b1;
      want_restart <= 1'b0;
      interval_written <= 1'b0;
      interval <= 32'd100;
      pause_sent <= 32'd99;
    end
  end

  // ---- clk: the page monitor ---------------------------------------------------------------------------------------------

  logic reads_only, dedupe, chmu_enabled;
  logic [2:0] track;
  logic [63:0] bitmap;
  logic valid2, valid3, valid4, counted, page_write1, last_valid, last_valid4;
  logic enabled2, plain2, chosen2, dedupe2, dedupe3, dedupe4;
  logic [7:0] ranges2;
  logic [10:0] equal4; // to the page before, in groups of three bits
  logic [31:0] page1, page2, page3, page4, page, last_page, accesses;

  always_ff @(posedge clk) begin
    valid1 <= access_taken;
    page1 <= arrived_page;
    page_write1 <= arrived_write;

    // The configuration is read here.
    valid2 <= valid1;
    page2 <= page1;
    enabled2 <= chmu_enabled;
    plain2 <= !(page_write1 && reads_only);
    chosen2 <= |(track & {1'b1, page_write1, !page_write1}) && page1[31:22] == 0;
    for (int range = 0; range < 8; range++) ranges2[range] <= bitmap[{page1[21:19], 3'(range)}];
    dedupe2 <= dedupe;

    valid3 <= valid2 && (enabled2 ? chosen2 && ranges2[page2[18:16]] : plain2);
    page3 <= page2;
    dedupe3 <= dedupe2;

    valid4 <= valid3;
    page4 <= page3;
    dedupe4 <= dedupe3;
    last_valid4 <= last_valid;
    for (int g = 0; g < 10; g++) equal4[g] <= page3[3*g+:3] == last_page[3*g+:3];
    equal4[10] <= page3[31:30] == last_page[31:30];
    if (valid3) begin
      last_valid <= 1'b1;
      last_page  <= page3;
    end

    counted <= valid4 && !(dedupe4 && last_valid4 && &equal4);
    page <= page4;
    if (counted) accesses <= accesses + 1;

    if (rst || wipe || clear) begin
      last_valid <= 1'b0;
      accesses <= '0;
    end
    if (rst) {counted, valid4, valid3, valid2, valid1} <= '0;
  end

  // ---- clk: which pages are hot ------------------------------------------------------------------------------------------

  logic [31:0] threshold, chmu_threshold, limit1, hot_page, oldest, withheld_count;
  logic [COUNTER_BITS-1:0] hot_count, grown, limit2;
  logic [FIFO_BITS:0] waiting;
  logic [WIDTH_BITS:0] bin_counters;
  logic withheld, hotlist, grew, fifo_full, fifo_last, fifo_push, ring_full, ring_last, ring_push, use_hotlist1, use_hotlist2, limit_over2, some3, pop4;

  always_ff @(posedge clk) begin
    use_hotlist1 <= chmu_enabled;
    limit1 <= chmu_enabled ? chmu_threshold : threshold;
    use_hotlist2 <= use_hotlist1;
    limit2 <= limit1[COUNTER_BITS-1:0];
    limit_over2 <= |limit1[31:COUNTER_BITS];
  end

  detector #(
      .WIDTH_BITS(WIDTH_BITS),
      .DEPTH(DEPTH),
      .COUNTER_BITS(COUNTER_BITS),
      .BANK_BITS(BANK_BITS)
  ) detect (
      .clk,
      .rst,
      .forget(rst || wipe || clear),
      .valid(counted),
      .page,
      .use_hotlist(use_hotlist2),
      .limit_over(limit_over2),
      .limit(limit2),
      .queue_full(fifo_full),
      .queue_last(fifo_last),
      .hotlist_full(ring_full),
      .hotlist_last(ring_last),
      .to_queue(fifo_push),
      .to_hotlist(ring_push),
      .withheld,
      .hotlist,
      .hot_page,
      .hot_count,
      .grew,
      .grown,
      .clear(clear_row),
      .clear_row(row[ROW_BITS-1:0])
  );

  hot_fifo #(
      .ADDR_BITS(FIFO_BITS)
  ) hot (
      .clk,
      .clear(rst || wipe),
      .push(fifo_push),
      .page(hot_page),
      .full(fifo_full),
      .last(fifo_last),
      .waiting,
      .pop(pop4),
      .oldest
  );

  histogram #(
      .WIDTH_BITS(WIDTH_BITS),
      .COUNTER_BITS(COUNTER_BITS)
  ) hist (
      .clk,
      .grew,
      .count(grown),
      .clear(clear_row),
      .clear_row(row[5:0]),
      .copy,
      .copy_bin(~walk[5:0]),
      .bin,
      .counters(bin_counters)
  );

  always_ff @(posedge clk) begin
    some3 <= waiting != 0;
    pop4 <= read3 && at_hot3 && some3;
    if (withheld) withheld_count <= withheld_count + 1;
    if (rst || wipe || clear) withheld_count <= '0;
  end

  logic [63:0] chmu_read3, chmu_entry4;

  chmu #(
      .COUNTER_BITS(COUNTER_BITS),
      .RING_BITS(RING_BITS)
  ) unit (
      .clk,
      .rst,
      .wipe,
      .clearing,
      .addr1,
      .high1,
      .low1,
      .write2,
      .data2,
      .reset2(chmu_reset),
      .read3(chmu_read3),
      .entry4(chmu_entry4),
      .enabled(chmu_enabled),
      .threshold(chmu_threshold),
      .track,
      .bitmap,
      .push(ring_push),
      .withheld(withheld && hotlist),
      .hot_page,
      .hot_count,
      .full(ring_full),
      .last(ring_last)
  );

  // ---- clk: registers ----------------------------------------------------------------------------------------------------

  logic [63:0] own3, counts3, all4, taken4;

  always_ff @(posedge clk) begin
    if (write2 && at_threshold) threshold <= data2[31:0];
    if (write2 && at_control) begin
      reads_only <= data2[regs::CONTROL_READS_ONLY_LOW];
      dedupe <= data2[regs::CONTROL_DEDUPE_LOW];
    end
    if (rst) begin
      threshold <= '1;
      reads_only <= 1'b0;
      dedupe <= 1'b0;
    end

    own3 <= {64{at_threshold}} & 64'(threshold) | {64{at_nr_hot}} & 64'(waiting) | {64{at_nr_hist}} & 64'(bins_left) |
            {64{at_control}} & (64'(reads_only) << regs::CONTROL_READS_ONLY_LOW | 64'(dedupe) << regs::CONTROL_DEDUPE_LOW) |
            {64{at_interval}} & 64'(interval) | {64{at_status}} & 64'(busy) << regs::STATUS_BUSY_LOW |
            {64{at_shape}} & (64'(WIDTH_BITS) << regs::SHAPE_WIDTH_LOG2_LOW | 64'(DEPTH) << regs::SHAPE_DEPTH_LOW |
            64'(COUNTER_BITS) << regs::SHAPE_COUNTER_BITS_LOW | 64'(FIFO_BITS) << regs::SHAPE_FIFO_LOG2_LOW);
    counts3 <= {64{at_samples && !counts_old}} & 64'(samples) | {64{at_reads && !counts_old}} & 64'(reads) |
               {64{at_writes && !counts_old}} & 64'(writes) | {64{at_dropped && !counts_old}} & 64'(dropped) |
               {64{at_accesses}} & 64'(accesses) | {64{at_withheld}} & 64'(withheld_count);
    all4 <= own3 | counts3 | chmu_read3;
    taken4 <= '0;
    if (read3 && at_hot3) taken4 <= some3 ? 64'(oldest) : '1;
    if (read3 && at_hist3 && hist_some3) taken4 <= 64'(bin_counters);
    bus_read <= all4 | taken4 | chmu_entry4;
  end
endmodule
