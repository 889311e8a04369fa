/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * note_files: SOCKET TRACE RANK KEEP FILE...: takes part in a trace as a process
 * that opens these files, and does nothing else.  A stand-in for the open() of a
 * recorded program.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client.h"
#include "shim/files.h"

int main(int argc, char **argv)
{
	static const char schema[] = "{\"structs\": {}, \"calls\": []}";
	struct sr_client client = {0};
	struct sr_hello hello = {
	    .version = SR_TRACE_VERSION,
	    .schema = schema,
	    .schema_size = sizeof(schema) - 1,
	};
	char error[400] = "";

	if (argc < 5)
		return 2;
	hello.trace_dir = argv[2];
	hello.rank = atoi(argv[3]);
	if (sr_client_connect(&client, argv[1], &hello, error, sizeof(error))) {
		fprintf(stderr, "%s\n", error);
		return 3;
	}
	sr_files_start(&client, atoi(argv[4]));
	for (int i = 5; i < argc; i++) {
		int fd = open(argv[i], O_RDONLY);

		if (fd < 0)
			return 4;
		sr_files_opened(fd, O_RDONLY);
		close(fd);
	}
	return sr_client_finish(&client, 20000) ? 5 : 0;
}
