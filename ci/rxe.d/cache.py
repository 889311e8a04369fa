"""The runner's cache: the guest's kernel and modules, its initramfs, what is known of KVM.

    kernel-VERSION-HASH/     vmlinux and the modules in loading order; made by ci/setup, HASH of
                             the list of modules
    initramfs-HASH.cpio      HASH of all that is in it
    kvm-HASH                 does KVM work here: HASH of host kernel, qemu and guest kernel

Everything is made under another name and renamed, so a reader needs no lock and two makers at once
do no harm.
"""

import contextlib
import fcntl
import glob
import hashlib
import lzma
import os
import shutil
import struct
import subprocess
import tempfile
import time

from failure import Failure

HERE = os.path.dirname(os.path.realpath(__file__))
SETUP = os.path.join(os.path.dirname(HERE), "setup")

# With what they need (modprobe adds that). crc32_generic is what rxe asks the crypto layer for by
# name: without it "rdma link add" fails with ENOENT, and no dependency tells.
MODULES = (
    "virtio_pci virtio_console virtio_rng 9p 9pnet_virtio overlay veth "
    "crc32_generic ib_uverbs rdma_rxe rdma_ucm"
).split()


def directory():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = os.path.join(base, "sreplay")
    os.makedirs(path, exist_ok=True)
    return path


@contextlib.contextmanager
def lock(name):
    """Held by one process at a time; the kernel drops it should the holder die."""
    with open(os.path.join(directory(), f"{name}.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def digest(*parts):
    hash_ = hashlib.sha256()
    for part in parts:
        hash_.update(part if isinstance(part, bytes) else part.encode())
        hash_.update(b"\0")
    return hash_.hexdigest()[:16]


def write_whole(path, data):
    """Write a file so that no reader ever sees a part of it."""
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as file:
        file.write(data)
    os.rename(file.name, path)


def read(path):
    with open(path, "rb") as file:
        return file.read()


# The kernel.

def kernel():
    """The directory of the newest kernel in the cache."""
    found = glob.glob(os.path.join(directory(), f"kernel-*-{digest(*MODULES)}"))
    if not found:
        raise Failure(f"no guest kernel in {directory()}; run {SETUP} (as root) to get one")
    return max(found, key=os.path.getmtime)


def import_kernel(unpacked):
    """Keep of unpacked kernel packages what the guest needs: 67 of 400 MB."""
    version = modules_version(unpacked)
    target = os.path.join(directory(), f"kernel-{version}-{digest(*MODULES)}")
    work = tempfile.mkdtemp(prefix="new-kernel.", dir=directory())
    try:
        image = read(os.path.join(unpacked, "boot", f"vmlinuz-{version}"))
        write_whole(os.path.join(work, "vmlinux"), uncompressed_kernel(image))
        for number, path in enumerate(module_files(unpacked, version)):
            name = os.path.basename(path).split(".ko")[0]
            write_whole(os.path.join(work, f"{number:02}-{name}.ko"), uncompressed_module(path))
        os.chmod(work, 0o755)
        with lock("kernel"):
            shutil.rmtree(target, ignore_errors=True)
            os.rename(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def modules_version(unpacked):
    # Debian 13's packages have them below usr/, where depmod and modprobe do not look.
    modules = os.path.join(unpacked, "lib", "modules")
    if not os.path.exists(modules):
        os.makedirs(os.path.dirname(modules), exist_ok=True)
        os.symlink("../usr/lib/modules", modules)
    found = glob.glob(os.path.join(modules, "*"))
    if len(found) != 1:
        raise Failure(f"{unpacked} holds {len(found)} kernels' modules, not one; "
                      f"run {SETUP} again")
    return os.path.basename(found[0])


def module_files(unpacked, version):
    """The modules and all they depend on, in loading order. Those built in have no file."""
    subprocess.run(["depmod", "-b", unpacked, version], check=True)
    files = []
    for module in MODULES:
        shown = subprocess.run(
            ["modprobe", "-d", unpacked, "-S", version, "--show-depends", module],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if shown.returncode != 0:
            raise Failure(f"the kernel packages of {version} hold no module {module}; is "
                          "linux-modules-extra among them?")
        for line in shown.stdout.splitlines():
            action, _, path = line.strip().partition(" ")
            if action == "insmod" and path not in files:
                files.append(path)
    return files


def uncompressed_kernel(image):
    """The ELF file inside a bzImage: qemu starts it directly (PVH), which under software
    emulation saves 4 of 8 seconds, the guest unpacking itself. Offsets: the kernel's
    Documentation/x86/boot.rst."""
    sectors = image[0x1F1]
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (sectors + 1) * 512 + offset
    return uncompressed(image[start:start + length], "the kernel")


def uncompressed_module(path):
    return uncompressed(read(path), path)


def uncompressed(data, name):
    if data.startswith(b"\x7fELF"):
        return data
    if data.startswith(b"\xfd7zXZ"):
        return lzma.LZMADecompressor().decompress(data)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        # Its exit code is of no use: behind a kernel come 4 bytes that are not zstd's.
        done = subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)
        if done.stdout.startswith(b"\x7fELF"):
            return done.stdout
    raise Failure(f"cannot unpack {name}: neither ELF nor xz nor zstd")


# The initramfs.

def initramfs(kernel_directory):
    """The path of the initramfs of this kernel, made if it is not there."""
    busybox = shutil.which("busybox")
    if not busybox:
        raise Failure(f"no busybox on this host; run {SETUP} (as root) to install busybox-static")
    init = os.path.join(HERE, "init")
    content = digest(kernel_directory, read(init), read(busybox))
    path = os.path.join(directory(), f"initramfs-{content}.cpio")
    if not os.path.exists(path):
        make_initramfs(path, kernel_directory, busybox, init)
    return path


def make_initramfs(path, kernel_directory, busybox, init):
    with tempfile.TemporaryDirectory(prefix="new-initramfs.", dir=directory()) as root:
        for name in ("bin", "dev", "modules"):
            os.mkdir(os.path.join(root, name))
        shutil.copy(busybox, os.path.join(root, "bin", "busybox"))
        shutil.copy(init, os.path.join(root, "init"))
        os.chmod(os.path.join(root, "init"), 0o755)
        for module in sorted(glob.glob(os.path.join(kernel_directory, "*.ko"))):
            shutil.copy(module, os.path.join(root, "modules"))
        names = subprocess.run(["find", "."], cwd=root, check=True, stdout=subprocess.PIPE).stdout
        archive = subprocess.run(["cpio", "--quiet", "-o", "-H", "newc"], cwd=root, check=True,
                                 input=names, stdout=subprocess.PIPE).stdout
    write_whole(path, archive)
    forget_old_initramfs(path)


def forget_old_initramfs(current):
    """Those of earlier versions; a day old, because a run that starts now may have chosen one."""
    for path in glob.glob(os.path.join(directory(), "initramfs-*.cpio")):
        with contextlib.suppress(FileNotFoundError):
            if path != current and time.time() - os.path.getmtime(path) > 86400:
                os.unlink(path)


# KVM.

def kvm_works(qemu, kernel_directory, try_it):
    """Does KVM work here? try_it() finds out; asked once per host kernel, qemu and guest kernel."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    version = subprocess.run([qemu, "--version"], check=True, stdout=subprocess.PIPE).stdout
    host = " ".join(os.uname())
    path = os.path.join(directory(), f"kvm-{digest(host, version, kernel_directory)}")
    if not os.path.exists(path):
        with lock("kvm"):
            if not os.path.exists(path):
                write_whole(path, b"works\n" if try_it() else b"fails\n")
    return read(path) == b"works\n"
