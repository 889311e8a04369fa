#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every system call of x86-64 must be described, harmless, or in the list that the shim reports when one is made.

    syscalls.py SOURCES SYSCALLS.GEN.C

SOURCES: shim/calls/trap/trap.c. The test fails for a call that is in the kernel's headers but unknown to this version.
"""

import re
import subprocess
import sys

LAST = 450  # of Linux 6.1's
UNKNOWN = set("""
    perf_event_open bpf userfaultfd restart_syscall
    open_by_handle_at lookup_dcookie add_key request_key keyctl
    rt_sigtimedwait rt_sigsuspend uselib ustat sysfs
    clock_settime settimeofday acct quotactl quotactl_fd iopl ioperm
    mount umount2 pivot_root swapon swapoff reboot sethostname setdomainname vhangup
    open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr process_mrelease
    init_module finit_module delete_module kexec_load kexec_file_load
    set_thread_area get_thread_area _sysctl create_module get_kernel_syms query_module nfsservctl getpmsg putpmsg
    uretprobe afs_syscall tuxcall security epoll_ctl_old epoll_wait_old vserver
""".split())


def main():
    header = subprocess.run(["gcc", "-E", "-dM", "-x", "c", "-"], input="#include <asm/unistd.h>\n", capture_output=True,
                            text=True, check=True).stdout
    numbers = {m.group(1): int(m.group(2)) for m in re.finditer(r"#define __NR_(\w+) (\d+)$", header, re.M)}
    known = set()
    for path in sys.argv[1:]:
        with open(path) as f:
            known |= set(re.findall(r"\bSYS_(\w+)", f.read()))
    missing = sorted(name for name, n in numbers.items() if n <= LAST and name not in known | UNKNOWN)
    print("1..1")
    print("%s 1 - %d system calls: described, harmless or listed as unknown" % ("not ok" if missing else "ok", len(numbers)))
    if missing:
        print("# neither: " + " ".join(missing))
    sys.exit(bool(missing))


if __name__ == "__main__":
    main()
