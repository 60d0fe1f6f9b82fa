// SPDX-License-Identifier: Apache-2.0
// NeoProf (NeoMem, MICRO 2024): counts the accesses to every page of a memory device and reports hot pages to
// the host.
//
//        mem_clk                          |   clk
//   access ─► async_fifo ─────────────────┼─► page monitor ─► detector ─► hot_fifo, or the hotlist of chmu
//      └────► state_monitor ─► cdc_word ──┼─► registers           └─► histogram
//
// Registers: a request in cycle t is answered in t+2, when the next request may come. Offsets: registers.md.
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
    output logic        mem_restart, // the state monitor restarts after this cycle

    // The host.
    input  logic        clk,
    input  logic        rst,
    input  logic        bus_valid,
    input  logic        bus_write,
    input  logic [15:0] bus_addr,
    input  logic [63:0] bus_data,
    output logic        bus_answer,
    output logic [63:0] bus_read
);
  localparam int ROW_BITS = WIDTH_BITS - BANK_BITS - 5; // rows of valid and hot bits in a bank
  localparam int WALK_BITS = ROW_BITS > 6 ? ROW_BITS : 6; // at least the 64 bins of the histogram

  logic bus_write1, bus_read1, was_waiting1, reset_asked;
  logic [15:0] bus_addr1;
  logic [63:0] bus_data1, read1, chmu_read1;
  logic chmu_reset;

  // ---- mem_clk: the memory controller's side -----------------------------------------------------------------------

  logic [31:0] mem_samples, mem_reads, mem_writes, mem_dropped, mem_interval;
  logic cleared, restarted, mem_clear_ask, mem_restart_ask, mem_clear;

  logic crossing_full, arrived, take, arrived_write;
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
      .out_take(take),
      .out_data({arrived_write, arrived_page})
  );
  assign access_lost = access && crossing_full;

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
      .interval(mem_interval),
      .samples(mem_samples),
      .reads(mem_reads),
      .writes(mem_writes),
      .dropped(mem_dropped)
  );

  // ---- clock domain crossing ---------------------------------------------------------------------------------------------------------

  logic [31:0] interval, samples, reads, writes, dropped;
  logic clear_ask, restart_ask, clear_done, restart_done;

  cdc_word #(
      .BITS(34)
  ) to_memory (
      .in_clk(clk),
      .in_rst(rst),
      .in_data({clear_ask, restart_ask, interval}),
      .out_clk(mem_clk),
      .out_rst(mem_rst),
      .out_data({mem_clear_ask, mem_restart_ask, mem_interval})
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

  // ---- clk: clearing and copying; accesses wait in the crossing ----------------------------------------------

  typedef enum logic [2:0] {RUN, DRAIN, CLEAR, COPY, SETTLE} phase_t;
  phase_t phase;
  logic want_clear, want_copy, clear, copy, busy, detector_busy, counted;
  logic [WALK_BITS-1:0] walk;
  logic [3:0] quiet; // cycles until the pipeline is empty

  assign take  = phase == RUN && !want_clear && !want_copy;
  assign clear = phase == CLEAR;
  assign copy  = phase == COPY;
  assign busy  = phase != RUN || want_clear || want_copy || arrived || quiet != 0 ||
                 clear_ask != clear_done || restart_ask != restart_done;

  always_ff @(posedge clk) begin
    if (arrived && take || counted || detector_busy) quiet <= '1;
    else if (quiet != 0) quiet <= quiet - 1'b1;

    case (phase)
      RUN: if (want_clear || want_copy) phase <= DRAIN;
      DRAIN: begin
        walk <= '0;
        if (quiet == 0) phase <= want_clear ? CLEAR : COPY;
      end
      CLEAR: begin
        walk <= walk + 1'b1;
        want_clear <= 1'b0;
        if (&walk) begin
          phase <= RUN;
          clear_ask <= !clear_ask;
        end
      end
      COPY: begin
        walk <= walk + 1'b1;
        want_copy <= 1'b0;
        if (&walk[5:0]) phase <= SETTLE;
      end
      default: begin
        walk <= walk + 1'b1;
        if (walk[1:0] == 2'b11) phase <= RUN;
      end
    endcase

    if (reset_asked) want_clear <= 1'b1;
    if (bus_write1 && bus_addr1 == regs::SET_HIST_EN && bus_data1[0]) want_copy <= 1'b1;
    if (bus_write1 && bus_addr1 == regs::SAMPLE_INTERVAL) begin
      interval <= bus_data1[31:0];
      restart_ask <= !restart_ask;
    end
    if (rst) begin
      phase <= RUN;
      want_clear <= 1'b1;
      want_copy <= 1'b0;
      clear_ask <= 1'b0;
      restart_ask <= 1'b0;
      interval <= 32'd100;
      quiet <= '0;
    end
  end

  // ---- clk: the page monitor ---------------------------------------------------------------------------------------------

  logic reads_only, dedupe, last_valid, tracked, chmu_tracked, chmu_enabled;
  logic [31:0] page, last_page, accesses;

  assign tracked = chmu_enabled ? chmu_tracked : !(arrived_write && reads_only);

  always_ff @(posedge clk) begin
    counted <= arrived && take && tracked && !(dedupe && last_valid && last_page == arrived_page);
    page <= arrived_page;
    if (arrived && take && tracked) begin
      last_valid <= 1'b1;
      last_page  <= arrived_page;
    end
    if (counted) accesses <= accesses + 1;
    if (rst || clear) begin
      last_valid <= 1'b0;
      accesses <= '0;
    end
    if (rst) counted <= 1'b0;
  end

  // ---- clk: which pages are hot ------------------------------------------------------------------------------------------

  logic [31:0] threshold, theta, chmu_theta, hot_page, oldest, withheld_count;
  logic [COUNTER_BITS-1:0] hot_count, grown;
  logic [FIFO_BITS:0] waiting;
  logic [WIDTH_BITS:0] bin_counters;
  logic report, withheld, grew, fifo_room, ring_room, hist_taken;
  logic [6:0] bins_left;

  detector #(
      .WIDTH_BITS(WIDTH_BITS),
      .DEPTH(DEPTH),
      .COUNTER_BITS(COUNTER_BITS),
      .BANK_BITS(BANK_BITS)
  ) detect (
      .clk,
      .rst,
      .valid(counted),
      .page,
      .theta,
      .room(chmu_enabled ? ring_room : fifo_room),
      .report,
      .withheld,
      .hot_page,
      .hot_count,
      .busy(detector_busy),
      .grew,
      .grown,
      .clear,
      .clear_row(walk[ROW_BITS-1:0])
  );

  hot_fifo #(
      .ADDR_BITS(FIFO_BITS)
  ) hot (
      .clk,
      .clear(rst || clear),
      .push(report && !chmu_enabled),
      .page(hot_page),
      .room(fifo_room),
      .waiting,
      .pop(bus_read1 && bus_addr1 == regs::GET_HOT_PAGE && was_waiting1),
      .oldest
  );

  histogram #(
      .WIDTH_BITS(WIDTH_BITS),
      .COUNTER_BITS(COUNTER_BITS)
  ) hist (
      .clk,
      .grew,
      .count(grown),
      .clear,
      .clear_row(walk[5:0]),
      .copy,
      .copy_bin(~walk[5:0]),
      .bin(6'(7'd64 - bins_left)),
      .counters(bin_counters)
  );
  assign hist_taken = bus_read1 && bus_addr1 == regs::GET_HIST && bins_left != 0;

  always_ff @(posedge clk) begin
    theta <= chmu_enabled ? chmu_theta : threshold;
    if (withheld) withheld_count <= withheld_count + 1;
    if (hist_taken) bins_left <= bins_left - 1'b1;
    if (copy) bins_left <= 7'd64;
    if (rst || clear) begin
      withheld_count <= '0;
      bins_left <= '0;
    end
  end

  chmu #(
      .COUNTER_BITS(COUNTER_BITS),
      .RING_BITS(RING_BITS)
  ) unit (
      .clk,
      .rst,
      .clear,
      .addr(bus_addr),
      .addr1(bus_addr1),
      .write1(bus_write1),
      .data1(bus_data1),
      .read1(chmu_read1),
      .reset(chmu_reset),
      .enabled(chmu_enabled),
      .theta(chmu_theta),
      .page(arrived_page[31:16]),
      .page_write(arrived_write),
      .tracked(chmu_tracked),
      .push(report && chmu_enabled),
      .withheld(withheld && chmu_enabled),
      .hot_page,
      .hot_count,
      .room(ring_room)
  );

  // ---- clk: registers ----------------------------------------------------------------------------------------------------

  assign reset_asked = (bus_write1 && bus_addr1 == regs::RESET && bus_data1[0]) || chmu_reset;

  always_ff @(posedge clk) begin
    bus_write1 <= !rst && bus_valid && bus_write;
    bus_read1 <= !rst && bus_valid && !bus_write;
    bus_addr1 <= bus_addr;
    bus_data1 <= bus_data;
    was_waiting1 <= waiting != 0;
    bus_answer <= bus_write1 || bus_read1;
    bus_read <= read1;
    if (bus_write1 && bus_addr1 == regs::SET_THRESHOLD) threshold <= bus_data1[31:0];
    if (bus_write1 && bus_addr1 == regs::CONTROL) begin
      reads_only <= bus_data1[regs::CONTROL_READS_ONLY_LOW];
      dedupe <= bus_data1[regs::CONTROL_DEDUPE_LOW];
    end
    if (rst) begin
      threshold <= '1;
      reads_only <= 1'b0;
      dedupe <= 1'b0;
    end
  end

  always_comb begin
    read1 = chmu_read1;
    case (bus_addr1)
      regs::SET_THRESHOLD: read1 = 64'(threshold);
      regs::GET_NR_HOT_PAGE: read1 = 64'(waiting);
      regs::GET_HOT_PAGE: read1 = was_waiting1 ? 64'(oldest) : 64'hffff_ffff;
      regs::GET_NR_SAMPLE: read1 = 64'(samples);
      regs::GET_RD_CNT: read1 = 64'(reads);
      regs::GET_WR_CNT: read1 = 64'(writes);
      regs::GET_NR_HIST_BIN: read1 = 64'(bins_left);
      regs::GET_HIST: read1 = bins_left == 0 ? 64'd0 : 64'(bin_counters);
      regs::CONTROL: read1 = 64'(reads_only) << regs::CONTROL_READS_ONLY_LOW | 64'(dedupe) << regs::CONTROL_DEDUPE_LOW;
      regs::SAMPLE_INTERVAL: read1 = 64'(interval == 0 ? 32'd1 : interval);
      regs::STATUS: read1 = 64'(busy) << regs::STATUS_BUSY_LOW;
      regs::GET_NR_ACCESS: read1 = 64'(accesses);
      regs::GET_NR_DROPPED: read1 = 64'(dropped);
      regs::GET_NR_WITHHELD: read1 = 64'(withheld_count);
      regs::SHAPE:
      read1 = 64'(WIDTH_BITS) << regs::SHAPE_WIDTH_LOG2_LOW | 64'(DEPTH) << regs::SHAPE_DEPTH_LOW |
              64'(COUNTER_BITS) << regs::SHAPE_COUNTER_BITS_LOW | 64'(FIFO_BITS) << regs::SHAPE_FIFO_LOG2_LOW;
      default: ;
    endcase
  end
endmodule
