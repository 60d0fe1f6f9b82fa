# SPDX-License-Identifier: Apache-2.0
"""A CXL device behind QEMU's host bridge, with the script of part attach."""

from parts.attach import attach
from tool.suite import check


def run(work, options):
    guest = attach(work, options, "--shape", "cxl", title="cxl")
    topology = guest.json("topology.out")
    check("cxl: topology shows the device and its region", topology.get("cxl_memdevs") and any(r["committed"] for r in topology.get("cxl_regions", [])),
          guest.output("topology")[-600:])
