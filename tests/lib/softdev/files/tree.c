/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tree.c DIRECTORY [infiniband]: makes the files that a kernel with the device soft0 would have in sysfs and
 * /dev. Their contents have the form of the kernel's files for a Soft-RoCE device. Runs when
 * libsoftdev_files.so is built.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INFINIBAND "sys/devices/virtual/infiniband/soft0"
#define PORT       INFINIBAND "/ports/1"
#define VERBS      "sys/devices/virtual/infiniband_verbs/uverbs0"
#define RDMA_CM    "sys/devices/virtual/misc/rdma_cm"
#define NODE_GUID  "0100:0000:0000:0002"

static const struct file {
	const char *path, *text;
} files[] = {
    {INFINIBAND "/node_type", "1: CA"},
    {INFINIBAND "/node_guid", NODE_GUID},
    {INFINIBAND "/sys_image_guid", NODE_GUID},
    {INFINIBAND "/node_desc", "soft0"},
    {INFINIBAND "/fw_ver", "1.0"},
    {INFINIBAND "/parent", "lo"},
    {INFINIBAND "/uevent", "NAME=soft0"},
    {PORT "/state", "4: ACTIVE"},
    {PORT "/phys_state", "5: LinkUp"},
    {PORT "/rate", "100 Gb/sec (4X EDR)"},
    {PORT "/cap_mask", "0x04010000"},
    {PORT "/lid_mask_count", "0"},
    {PORT "/sm_sl", "0"},
    {PORT "/pkeys/0", "0xffff"},
    {PORT "/gids/0", "fe80:0000:0000:0000:0000:00ff:fe00:0002"},
    {PORT "/gids/1", "0000:0000:0000:0000:0000:ffff:7f00:0001"},
    {PORT "/gid_attrs/ndevs/0", "lo"},
    {PORT "/gid_attrs/ndevs/1", "lo"},
    {VERBS "/abi_version", "2"},
    {VERBS "/dev", "231:192"},
    {VERBS "/ibdev", "soft0"},
    {VERBS "/uevent", "MAJOR=231\nMINOR=192\nDEVNAME=infiniband/uverbs0\nDEVMODE=0666"},
    {"sys/class/infiniband_verbs/abi_version", "6"},
    {RDMA_CM "/abi_version", "4"},
    {RDMA_CM "/dev", "10:124"},
    {RDMA_CM "/uevent", "MAJOR=10\nMINOR=124\nDEVNAME=infiniband/rdma_cm\nDEVMODE=0666"},
};

static const struct file of_ethernet[] = {
    {PORT "/link_layer", "Ethernet"},
    {PORT "/lid", "0x0"},
    {PORT "/sm_lid", "0x0"},
    {PORT "/gid_attrs/types/0", "RoCE v2"},
    {PORT "/gid_attrs/types/1", "RoCE v2"},
};

static const struct file of_infiniband[] = {
    {PORT "/link_layer", "InfiniBand"},
    {PORT "/lid", "0x1"},
    {PORT "/sm_lid", "0x1"},
    {PORT "/gid_attrs/types/0", "IB/RoCE v1"},
    {PORT "/gid_attrs/types/1", "IB/RoCE v1"},
};

/*
 * The links of sysfs are relative, as the kernel's are. /dev/null stands for the device nodes: a
 * character device that can be opened, and of which nobody asks anything.
 */
static const struct file links[] = {
    {"sys/class/infiniband/soft0", "../../devices/virtual/infiniband/soft0"},
    {"sys/class/infiniband_verbs/uverbs0", "../../devices/virtual/infiniband_verbs/uverbs0"},
    {"sys/class/misc/rdma_cm", "../../devices/virtual/misc/rdma_cm"},
    {INFINIBAND "/subsystem", "../../../../class/infiniband"},
    {VERBS "/subsystem", "../../../../class/infiniband_verbs"},
    {RDMA_CM "/subsystem", "../../../../class/misc"},
    {"dev/infiniband/uverbs0", "/dev/null"},
    {"dev/infiniband/rdma_cm", "/dev/null"},
};

/* Makes the folders in which the file will be. */
static int make_folders(char *path)
{
	for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
		int failed;

		*slash = 0;
		failed = mkdir(path, 0755) && errno != EEXIST;
		*slash = '/';
		if (failed)
			return -errno;
	}
	return 0;
}

static int write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");
	int failed;

	if (!f)
		return -errno;
	failed = fprintf(f, "%s\n", text) < 0;
	return fclose(f) || failed ? -EIO : 0;
}

static int make(const char *directory, const struct file *f,
		int (*make_one)(const char *, const char *))
{
	char path[PATH_MAX];
	int err;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, f->path) >= sizeof(path))
		return -ENAMETOOLONG;
	err = make_folders(path);
	return err ? err : make_one(path, f->text);
}

static int make_link(const char *path, const char *target)
{
	return symlink(target, path) && errno != EEXIST ? -errno : 0;
}

static int make_all(const char *directory, const struct file *f, size_t n, int (*make_one)(const char *, const char *))
{
	int err = 0;

	for (size_t i = 0; !err && i < n; i++)
		err = make(directory, &f[i], make_one);
	return err;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

int main(int argc, char **argv)
{
	int err = argc < 2 ? -EINVAL : make_all(argv[1], files, COUNT(files), write_file);

	if (!err)
		err = argc == 2 ? make_all(argv[1], of_ethernet, COUNT(of_ethernet), write_file)
				: make_all(argv[1], of_infiniband, COUNT(of_infiniband), write_file);
	if (!err)
		err = make_all(argv[1], links, COUNT(links), make_link);
	if (err)
		fprintf(stderr, "tree: %s\n", strerror(-err));
	return err ? 1 : 0;
}
