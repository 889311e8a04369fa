/* SPDX-License-Identifier: BSD-2-Clause */
/* main.c [CASE]: runs a case, or prints the names of all. tests/e2e/local/softdev_cm.py starts it.
 */
#include "shared.h"

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
#define X(name) {#name, name},
    CASES(X)
#undef X
};

int main(int argc, char **argv)
{
	for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
		if (argc < 2)
			puts(cases[n].name);
		else if (!strcmp(argv[1], cases[n].name)) {
			cases[n].run();
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}
