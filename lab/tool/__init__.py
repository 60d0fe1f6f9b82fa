# SPDX-License-Identifier: Apache-2.0
"""The QEMU lab, in the order a run meets its parts.

    cli      what the words on the command line mean
    cache    one folder that holds everything fetched, and says what it holds
    apt      Debian packages, downloaded and unpacked, never installed
    kernel   a Debian kernel made ready to boot fast
    qemu     a QEMU that runs beside the system's
    image    root file systems for programs that need one
    machine  the computer to emulate: memory nodes, clock, ports
    cpio     files for the guest
    guest    one boot, one command, one exit status

What never happens here: nothing is installed, no apt source of the host is read from or written to
except to learn its mirror, and no QEMU outlives the process that started it.
"""
