# SPDX-License-Identifier: Apache-2.0
"""The QEMU lab. The modules, in the order in which a run uses them:

    cli      the command line
    cache    the folder of everything downloaded, with a manifest
    apt      Debian packages, downloaded and unpacked, never installed
    kernel   a Debian kernel, prepared to boot fast
    qemu     a QEMU independent of the system's
    image    root file systems for programs that need one
    machine  the emulated computer: memory nodes, clock, ports
    cpio     files for the guest
    guest    one boot, one command, one exit status

Rules: nothing is installed. Of the host's apt sources only the mirror's address is read; nothing is written to them. No QEMU outlives the
process that started it.
"""
