#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Each function that libibverbs and librdmacm export is described in calls.def, under its version, or
known to be none that a recording needs; and libsreplay_verbs.so exports it under that version.

    exports.py CALLS.DEF LIBSREPLAY_VERBS.SO
"""

import re
import subprocess
import sys

LIBRARIES = {"ibverbs": "IBVERBS", "rdmacm": "RDMACM"}

# Compute from their arguments alone.
PURE = """ibv_copy_ah_attr_from_kern ibv_copy_path_rec_from_kern ibv_copy_path_rec_to_kern
    ibv_copy_qp_attr_from_kern ibv_event_type_str ibv_node_type_str ibv_port_state_str ibv_wc_status_str
    ibv_rate_to_mbps ibv_rate_to_mult mbps_to_ibv_rate mult_to_ibv_rate rdma_event_str""".split()
# Files below /sys: inputs as other files are.
FILES = ["ibv_get_sysfs_path", "ibv_read_sysfs_file"]
# Make nothing that a program sees; called by providers.
INTERNAL = ["ibv_register_driver", "ibv_dofork_range", "ibv_dontfork_range"]


def exported(path, nodes):
    symbols = subprocess.check_output(["nm", "-D", "--defined-only", path], text=True)
    return dict(re.findall(r" [TW] (\w+)@@(%s_[\d.]+)$" % nodes, symbols, re.M))


def described(path, library):
    with open(path) as f:
        return dict(re.findall(r"^call .*?(\w+)\(.*\n\tfrom %s (\S+)" % library, f.read(), re.M))


def main():
    bad = count = 0
    for library, nodes in LIBRARIES.items():
        path = subprocess.check_output(["cc", "-print-file-name=lib%s.so" % library], text=True).strip()
        calls, ours = described(sys.argv[1], library), exported(sys.argv[2], nodes)
        for name, version in sorted(exported(path, nodes).items()):
            count += 1
            good = calls.get(name) == ours.get(name) == version or name in PURE + FILES + INTERNAL
            bad += not good
            print("%s %d - %s@%s" % ("ok" if good else "not ok", count, name, version))
    print("1..%d" % count)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
