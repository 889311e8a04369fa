#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Each function that libibverbs exports is described in calls.def, under its version, or known
to be none that a recording needs.

    exports.py CALLS.DEF
"""

import re
import subprocess
import sys

# Compute from their arguments alone.
PURE = """ibv_copy_ah_attr_from_kern ibv_copy_path_rec_from_kern ibv_copy_path_rec_to_kern
    ibv_copy_qp_attr_from_kern ibv_event_type_str ibv_node_type_str ibv_port_state_str ibv_wc_status_str
    ibv_rate_to_mbps ibv_rate_to_mult mbps_to_ibv_rate mult_to_ibv_rate""".split()
# Files below /sys: inputs as other files are.
FILES = ["ibv_get_sysfs_path", "ibv_read_sysfs_file"]
# Make nothing that a program sees; called by providers.
INTERNAL = ["ibv_register_driver", "ibv_dofork_range", "ibv_dontfork_range"]


def exported():
    library = subprocess.check_output(["cc", "-print-file-name=libibverbs.so"], text=True).strip()
    symbols = subprocess.check_output(["nm", "-D", "--defined-only", library], text=True)
    return dict(re.findall(r" [TW] (\w+)@@(IBVERBS_[\d.]+)$", symbols, re.M))


def described(path):
    with open(path) as f:
        return dict(re.findall(r"^call .*?(\w+)\(.*\n\tfrom ibverbs (\S+)", f.read(), re.M))


def main():
    functions, calls = exported(), described(sys.argv[1])
    bad = 0
    for n, (name, version) in enumerate(sorted(functions.items()), 1):
        good = calls.get(name) == version or name in PURE + FILES + INTERNAL
        bad += not good
        print("%s %d - %s@%s" % ("ok" if good else "not ok", n, name, version))
    print("1..%d" % len(functions))
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
