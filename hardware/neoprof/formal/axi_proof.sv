// SPDX-License-Identifier: Apache-2.0
// Claims for axi_lite, from the rules of AXI (AMBA IHI 0022: A3.2.1 handshakes, A3.3.1 dependencies): an offered response stays
// until it is taken; there is one response for each request, none without, and it comes while the manager takes responses; a
// legal request reaches the registers once, another never. The solver chooses the manager, which keeps the rules as well, and
// how long the registers take.
module axi_proof (
    input logic        clk,
    input logic        awvalid,
    input logic [ 3:0] awaddr,
    input logic        wvalid,
    input logic [ 7:0] wstrb,
    input logic        bready,
    input logic        arvalid,
    input logic [ 3:0] araddr,
    input logic        rready,
    input logic        slow, // the registers' answer takes longer
    input logic [63:0] bus_read
);
  localparam int PATIENCE = 9; // cycles: two requests of at most four cycles each

  logic [1:0] time_now = 0;
  logic running;
  assign running = time_now == 2;

  logic awready, wready, bvalid, arready, rvalid, bus_valid, bus_ready, bus_write, bus_answer;
  logic [1:0] bresp, rresp;
  logic [63:0] rdata, bus_data;
  logic [15:0] bus_addr;

  axi_lite port (
      .clk,
      .rst(!running),
      .awvalid,
      .awready,
      .awaddr({12'd0, awaddr}),
      .wvalid,
      .wready,
      .wdata(64'd0),
      .wstrb,
      .bvalid,
      .bready,
      .bresp,
      .arvalid,
      .arready,
      .araddr({12'd0, araddr}),
      .rvalid,
      .rready,
      .rdata,
      .rresp,
      .bus_valid,
      .bus_ready,
      .bus_write,
      .bus_addr,
      .bus_data,
      .bus_answer,
      .bus_read
  );

  // The registers: one request, answered after one cycle or two.
  logic asked, late;
  assign bus_ready = !asked && !late;
  assign bus_answer = asked && !(slow && !late);

  // What the port owes, and what was true one cycle ago
  logic [2:0] aw_owed, w_owed, r_owed;
  logic [1:0] reads_reached, writes_reached; // requests to the registers since the last response
  logic [3:0] b_waits, r_waits;
  logic bvalid1, rvalid1, b_held, r_held, aw_held, w_held, ar_held;
  logic [1:0] bresp1, rresp1;
  logic [63:0] rdata1, answer;
  logic [3:0] awaddr1, araddr1;
  logic [7:0] wstrb1;
  logic aw_legal, w_legal, w_none, ar_legal; // of the request that is owed

  always_ff @(posedge clk) begin
    if (!running) time_now <= time_now + 1'b1;
    if (bus_answer) answer <= bus_read;
    asked <= bus_valid && bus_ready || asked && !bus_answer;
    late <= asked && !bus_answer;
    aw_owed <= aw_owed + 3'(awvalid && awready) - 3'(bvalid && bready);
    w_owed <= w_owed + 3'(wvalid && wready) - 3'(bvalid && bready);
    r_owed <= r_owed + 3'(arvalid && arready) - 3'(rvalid && rready);
    if (awvalid && awready) aw_legal <= awaddr[2:0] == 0;
    if (wvalid && wready) {w_legal, w_none} <= {&wstrb, wstrb == 0};
    if (arvalid && arready) ar_legal <= araddr[2:0] == 0;
    if (bus_valid && bus_ready && bus_write) writes_reached <= writes_reached + 1'b1;
    else if (bvalid && bready) writes_reached <= '0;
    if (bus_valid && bus_ready && !bus_write) reads_reached <= reads_reached + 1'b1;
    else if (rvalid && rready) reads_reached <= '0;
    b_waits <= aw_owed != 0 && w_owed != 0 && !bvalid ? b_waits + 1'b1 : '0;
    r_waits <= r_owed != 0 && !rvalid ? r_waits + 1'b1 : '0;
    {bvalid1, bresp1, b_held} <= {bvalid, bresp, bvalid && !bready};
    {rvalid1, rresp1, rdata1, r_held} <= {rvalid, rresp, rdata, rvalid && !rready};
    {aw_held, awaddr1} <= {awvalid && !awready, awaddr};
    {w_held, wstrb1} <= {wvalid && !wready, wstrb};
    {ar_held, araddr1} <= {arvalid && !arready, araddr};
    if (!running) begin
      {asked, late, b_held, r_held, aw_held, w_held, ar_held} <= '0;
      {aw_owed, w_owed, r_owed, reads_reached, writes_reached} <= '0;
      {b_waits, r_waits} <= '0;
    end
  end

  always_comb begin
    // A manager keeps what it offers.
    if (aw_held) assume (awvalid && awaddr == awaddr1);
    if (w_held) assume (wvalid && wstrb == wstrb1);
    if (ar_held) assume (arvalid && araddr == araddr1);
    if (!running) assume (!awvalid && !wvalid && !arvalid);
    if (running) begin
      if (b_held) assert (bvalid && bresp == bresp1);
      if (r_held) assert (rvalid && rresp == rresp1 && rdata == rdata1);
      if (bvalid) assert (aw_owed != 0 && w_owed != 0);
      if (rvalid) assert (r_owed != 0);
      assert (b_waits < 4'(PATIENCE) && r_waits < 4'(PATIENCE));
      // No request is accepted that could be mixed up with an earlier one.
      assert (aw_owed <= 2 && w_owed <= 2 && r_owed <= 2);
      if (bus_valid && bus_write) assert (aw_owed != 0 && w_owed != 0);
      if (bus_valid && !bus_write) assert (r_owed != 0);
      // A new response: its request is the last one that was accepted.
      if (bvalid && !b_held && !bvalid1) begin
        assert (writes_reached == 2'(aw_legal && w_legal));
        assert (bresp == (w_none || aw_legal && w_legal ? 2'b00 : 2'b10));
      end
      if (rvalid && !r_held && !rvalid1) begin
        assert (reads_reached == 2'(ar_legal));
        assert (rresp == (ar_legal ? 2'b00 : 2'b10));
        if (ar_legal) assert (rdata == answer);
      end
    end
  end
endmodule
