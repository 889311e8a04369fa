/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * python_imports.h: what a Python script imports from files of its own.
 * Called once, from the recorder's constructor, in one thread.
 */
#ifndef SREPLAY_SHIM_PROCESS_PYTHON_IMPORTS_H
#define SREPLAY_SHIM_PROCESS_PYTHON_IMPORTS_H

#include <stdbool.h>
#include <stddef.h>

/* Calls `look` with a file's bytes. False: it is no regular file, cannot be read, or `look` answers no. */
bool sr_look_into_file(const char *path, bool (*look)(const void *text, size_t size, void *context), void *context);

/*
 * Whether `is` holds for a script, or for a module that it imports, directly or by another one, from its own folder.  Modules
 * elsewhere are not looked at, nor what a script loads in any other way than by a line with `import`.
 */
bool sr_script_imports(const char *path, bool (*is)(const void *text, size_t size));

/* The same of a module that Python is told to run: python3 -m NAME, in the current folder. */
bool sr_module_imports(const char *name, bool (*is)(const void *text, size_t size));

#endif
