// SPDX-License-Identifier: Apache-2.0
// Generated from hardware/neoprof/registers.toml by `cargo run -p neoprof --example generate`; edit that file.
// verilator lint_off UNUSEDPARAM
package regs;
  localparam bit [15:0] RESET = 16'h0100;
  localparam bit [15:0] SET_THRESHOLD = 16'h0200;
  localparam bit [15:0] GET_NR_HOT_PAGE = 16'h0300;
  localparam bit [15:0] GET_HOT_PAGE = 16'h0400;
  localparam bit [15:0] GET_NR_SAMPLE = 16'h0500;
  localparam bit [15:0] GET_RD_CNT = 16'h0600;
  localparam bit [15:0] GET_WR_CNT = 16'h0700;
  localparam bit [15:0] SET_HIST_EN = 16'h0800;
  localparam bit [15:0] GET_NR_HIST_BIN = 16'h0900;
  localparam bit [15:0] GET_HIST = 16'h0a00;
  localparam bit [15:0] CONTROL = 16'h0b00;
  localparam int CONTROL_READS_ONLY_LOW = 0;
  localparam int CONTROL_DEDUPE_LOW = 1;
  localparam bit [15:0] SAMPLE_INTERVAL = 16'h0b08;
  localparam bit [15:0] STATUS = 16'h0b10;
  localparam int STATUS_BUSY_LOW = 0;
  localparam bit [15:0] GET_NR_ACCESS = 16'h0b18;
  localparam bit [15:0] GET_NR_DROPPED = 16'h0b20;
  localparam bit [15:0] GET_NR_WITHHELD = 16'h0b28;
  localparam bit [15:0] SHAPE = 16'h0b30;
  localparam int SHAPE_WIDTH_LOG2_LOW = 0;
  localparam int SHAPE_DEPTH_LOW = 8;
  localparam int SHAPE_COUNTER_BITS_LOW = 16;
  localparam int SHAPE_FIFO_LOG2_LOW = 24;
  localparam bit [15:0] CHMU_COMMON_CAP0 = 16'h1000;
  localparam int CHMU_COMMON_CAP0_VERSION_LOW = 0;
  localparam int CHMU_COMMON_CAP0_INSTANCES_LOW = 8;
  localparam bit [15:0] CHMU_COMMON_CAP1 = 16'h1008;
  localparam int CHMU_COMMON_CAP1_INSTANCE_BYTES_LOW = 0;
  localparam bit [15:0] CHMU_CAP0 = 16'h1010;
  localparam int CHMU_CAP0_TRACKED_LOW = 8;
  localparam int CHMU_CAP0_HOTLIST_ENTRIES_LOW = 48;
  localparam bit [15:0] CHMU_CAP1 = 16'h1018;
  localparam int CHMU_CAP1_UNIT_SIZES_LOW = 0;
  localparam int CHMU_CAP1_DOWN_SAMPLING_LOW = 32;
  localparam int CHMU_CAP1_EPOCH_LOW = 48;
  localparam int CHMU_CAP1_ALWAYS_ON_LOW = 49;
  localparam bit [15:0] CHMU_CAP2 = 16'h1020;
  localparam bit [15:0] CHMU_CAP3 = 16'h1028;
  localparam bit [15:0] CHMU_CONF0 = 16'h1050;
  localparam int CHMU_CONF0_TRACK_READS_LOW = 0;
  localparam int CHMU_CONF0_TRACK_WRITES_LOW = 1;
  localparam int CHMU_CONF0_TRACK_BOTH_LOW = 2;
  localparam int CHMU_CONF0_ENABLE_LOW = 16;
  localparam int CHMU_CONF0_RESET_LOW = 17;
  localparam int CHMU_CONF0_THRESHOLD_LOW = 32;
  localparam bit [15:0] CHMU_CONF1 = 16'h1058;
  localparam bit [15:0] CHMU_CONF2 = 16'h1060;
  localparam int CHMU_CONF2_NOTIFY_LOW = 0;
  localparam bit [15:0] CHMU_STATUS = 16'h1070;
  localparam int CHMU_STATUS_ENABLED_LOW = 0;
  localparam int CHMU_STATUS_IN_PROGRESS_LOW = 16;
  localparam int CHMU_STATUS_COUNTER_BITS_LOW = 32;
  localparam int CHMU_STATUS_OVERFLOW_LOW = 40;
  localparam int CHMU_STATUS_LEVEL_LOW = 41;
  localparam bit [15:0] CHMU_RING = 16'h1078;
  localparam int CHMU_RING_HEAD_LOW = 0;
  localparam int CHMU_RING_TAIL_LOW = 16;
  localparam bit [15:0] CHMU_BITMAP = 16'h1080;
  localparam bit [15:0] CHMU_HOTLIST = 16'h2000;

  // H3 seeds: one 32-bit word per bit of the page number, lane 0 and bit 0 lowest.
  localparam int LANES_MAX = 4;
  localparam bit [4095:0] SEEDS = {
    32'h12d05c40, 32'h6f1384a3, 32'hc847729f, 32'ha192afe3, 32'h40b12b12, 32'h9fea7dfc, 32'hb1392dbd, 32'h370595aa,
    32'h7fbd5db1, 32'h992dd867, 32'h7e1b3b75, 32'hcf8682f9, 32'hfad8fc45, 32'hc58427f0, 32'hf51c5047, 32'h5ef102a8,
    32'h179642d8, 32'h6a77afab, 32'h3521d628, 32'h1f7a44a6, 32'h365b1501, 32'hf3a9bce7, 32'h56759a96, 32'ha85e1f38,
    32'hbe4d15bf, 32'h1a764a3c, 32'h8bd8ff7a, 32'h8176daf8, 32'h3505b779, 32'hdc4c613d, 32'hee8c2baf, 32'h64952424,
    32'h12f6436a, 32'h05b8abe2, 32'h77fc607d, 32'h91cd6420, 32'hd9dccac4, 32'h21c6e266, 32'h8086d193, 32'h1b389942,
    32'h928d6f2d, 32'hc679ee0b, 32'h7b7dc216, 32'h56e4398a, 32'h451e5212, 32'h3dd12464, 32'h46a9fdac, 32'h96a573e9,
    32'h6a27ff80, 32'hd85f219d, 32'hc4dd302a, 32'h292566ff, 32'hdf82012d, 32'hef054fce, 32'hf1bcbc6a, 32'h5ccde782,
    32'hdb021594, 32'hee89cceb, 32'h9e60398c, 32'h32fcab5d, 32'h8c8a1f14, 32'h42375cb3, 32'h466d5e7f, 32'h2a7b67af,
    32'he255b237, 32'h3e00a349, 32'h55f070ab, 32'hed79402d, 32'hbfdeaed9, 32'hf4a578dc, 32'hcf448a58, 32'h30260345,
    32'h9b196bca, 32'hc952c562, 32'h03d68453, 32'h2098eb73, 32'hdf268ade, 32'he3ddd86b, 32'h22b353f0, 32'h774615d7,
    32'h690ed476, 32'h3e84ecb1, 32'hecee6563, 32'hcc06c316, 32'h12c015a9, 32'h07dc930b, 32'h134f7096, 32'h84eb4454,
    32'h4fa9fa73, 32'h6e19905d, 32'h3c3c41a3, 32'h417ef961, 32'h69630f75, 32'hd254741f, 32'h05582d37, 32'h0c7de806,
    32'h377d35de, 32'hf16952ee, 32'hee521d7a, 32'ha2f09dab, 32'h40d29eb5, 32'h69b82ebc, 32'h935e82f1, 32'hdd7c01d4,
    32'h54496ad6, 32'hedf5f1d9, 32'ha9038a92, 32'hdb01602b, 32'hd81a8d2b, 32'h3466e9a0, 32'hc3cf1710, 32'h7d29825c,
    32'h84bb3f97, 32'hb54e0f16, 32'h8e1f7555, 32'h8621a03f, 32'hc2d326e0, 32'h657eecdd, 32'hf3b8488c, 32'h3ee57890,
    32'hc584133a, 32'h2c829abe, 32'h53cb9f0c, 32'h1b39896a, 32'hf88bb8a8, 32'h06c45d18, 32'h6e789e6a, 32'he220a839
  };
endpackage
// verilator lint_on UNUSEDPARAM
