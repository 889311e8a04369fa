/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/daemon/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "logd/nodes/address.h"
#include "logd/ring/socket_path.h"
#include "logd/trace/frame.h"

#define DRAIN_THREADS 2
#define LEVEL_MAX     19
#define SECONDS_MAX   (INT_MAX / 1000)
#define WRONG_USAGE   2

static const char usage_text[] =
    "usage: sreplay-logd [--daemonize] [--socket PATH] [--level N] [--idle-exit SECONDS]\n"
    "                    [--log FILE] [--plain-io] [--listen ADDRESS[:PORT]]\n"
    "       sreplay-logd --status [--socket PATH]\n"
    "       sreplay-logd --wait DIR.srec [--timeout SECONDS] [--socket PATH]\n";

static int number(const char *name, const char *text, int low, int high)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (!errno && *text && !*end && n >= low && n <= high)
		return (int)n;
	fprintf(stderr, "sreplay-logd: --%s needs a number from %d to %d, not \"%s\"\n", name, low,
		high, text);
	exit(WRONG_USAGE);
}

static void take_daemonize(struct options *o, const char *text)
{
	o->daemonize = true;
}

static void take_socket(struct options *o, const char *text)
{
	if (sr_socket_absolute(o->socket, sizeof(o->socket), text))
		snprintf(o->socket, sizeof(o->socket), "%s", text); /* listen_open says why */
}

static void take_level(struct options *o, const char *text)
{
	o->drain.level = number("level", text, 0, LEVEL_MAX);
}

static void take_idle_exit(struct options *o, const char *text)
{
	o->idle_exit = number("idle-exit", text, 1, SECONDS_MAX);
}

static void take_log(struct options *o, const char *text)
{
	snprintf(o->log, sizeof(o->log), "%s", text);
}

static void take_status(struct options *o, const char *text)
{
	o->status = true;
}

static void take_wait(struct options *o, const char *text)
{
	o->wait_dir = text;
}

static void take_timeout(struct options *o, const char *text)
{
	o->timeout = number("timeout", text, 0, SECONDS_MAX);
}

static void take_listen(struct options *o, const char *text)
{
	if (!node_set_address(text))
		return;
	fprintf(stderr,
		"sreplay-logd: --listen needs an IP address, with or without a port, not \"%s\"\n",
		text);
	exit(WRONG_USAGE);
}

static void take_plain_io(struct options *o, const char *text)
{
	o->drain.plain = true;
}

static void show_version(struct options *o, const char *text)
{
	puts("sreplay-logd " SREPLAY_VERSION);
	exit(0);
}

static void show_help(struct options *o, const char *text)
{
	fputs(usage_text, stdout);
	exit(0);
}

static const struct {
	const char *name;
	int argument;
	void (*take)(struct options *o, const char *text);
} table[] = {
    {"daemonize", no_argument, take_daemonize}, {"socket", required_argument, take_socket},
    {"level", required_argument, take_level},   {"idle-exit", required_argument, take_idle_exit},
    {"log", required_argument, take_log},       {"status", no_argument, take_status},
    {"wait", required_argument, take_wait},     {"timeout", required_argument, take_timeout},
    {"listen", required_argument, take_listen}, {"plain-io", no_argument, take_plain_io},
    {"version", no_argument, show_version},     {"help", no_argument, show_help},
};

#define OPTIONS (sizeof(table) / sizeof(table[0]))

static void take_options(struct options *o, int argc, char **argv)
{
	struct option list[OPTIONS + 1] = {0};
	int which = 0, c;

	for (size_t i = 0; i < OPTIONS; i++)
		list[i] = (struct option){.name = table[i].name, .has_arg = table[i].argument};
	while ((c = getopt_long(argc, argv, "", list, &which)) >= 0) {
		if (c) {
			fputs(usage_text, stderr);
			exit(WRONG_USAGE);
		}
		table[which].take(o, optarg);
	}
}

void parse_options(struct options *o, int argc, char **argv)
{
	*o = (struct options){.drain = {.threads = DRAIN_THREADS, .level = SR_LEVEL_DEFAULT},
			      .timeout = SECONDS_MAX};
	take_options(o, argc, argv);
	if (optind < argc) {
		fprintf(stderr, "sreplay-logd: unexpected argument \"%s\"\n%s", argv[optind],
			usage_text);
		exit(WRONG_USAGE);
	}
	if (!o->socket[0] && sr_socket_path(o->socket, sizeof(o->socket))) {
		fprintf(stderr, "sreplay-logd: the socket's path is too long (SREPLAY_SOCKET, "
				"XDG_RUNTIME_DIR)\n");
		exit(WRONG_USAGE);
	}
}
