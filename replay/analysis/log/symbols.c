/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/symbols.h"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "logd/trace/read_trace.h"
#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/objects.h"

#define FRAMES_SHOWN 12

/* ---------------------------------------------------------------- modules */

/* A file of the recorded process, at its recorded address. */
struct object {
	const json_t *json;
	char *path;
	uint64_t start, end; /* of all its mappings */
	uint64_t base;       /* of its first one */
	bool tried;
	Dwfl_Module *module; /* NULL: not opened yet, or not the recorded file */
};

struct site {
	uint64_t address; /* 0: free */
	char *text;
};

struct sr_symbols {
	Dwfl *dwfl;
	struct object *objects;
	size_t n_objects, room_objects;
	struct site *sites; /* open addressing; a power of two of them */
	size_t n_sites, room_sites;
};

/* Separate debug information is expected where distributions put it. */
static const Dwfl_Callbacks offline_callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .section_address = dwfl_offline_section_address,
};

static const Dwfl_Callbacks live_callbacks = {
    .find_elf = dwfl_linux_proc_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
};

static uint64_t number_of(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

static void fill_object(struct object *o, const json_t *json)
{
	const json_t *range;
	size_t i, size;

	*o = (struct object){.json = json, .start = UINT64_MAX};
	o->path = sr_trace_bytes(json_object_get(json, "path"), &size);
	json_array_foreach(json_object_get(json, "ranges"), i, range)
	{
		uint64_t start = number_of(range, "start"), end = number_of(range, "end");

		if (start < o->start)
			o->start = start;
		if (end > o->end)
			o->end = end;
	}
	o->base =
	    json_object_get(json, "load_address") ? number_of(json, "load_address") : o->start;
}

struct sr_symbols *sr_symbols_new(const json_t *objects)
{
	struct sr_symbols *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->dwfl = dwfl_begin(&offline_callbacks);
	s->n_objects = json_array_size(objects);
	s->room_objects = s->n_objects + 1;
	s->objects = calloc(s->room_objects, sizeof(*s->objects));
	s->room_sites = 64;
	s->sites = calloc(s->room_sites, sizeof(*s->sites));
	if (!s->dwfl || !s->objects || !s->sites) {
		s->n_objects = 0;
		sr_symbols_free(s);
		return NULL;
	}
	for (size_t i = 0; i < s->n_objects; i++)
		fill_object(&s->objects[i], json_array_get(objects, i));
	return s;
}

void sr_symbols_add(struct sr_symbols *s, const char *path, uint64_t begin, uint64_t end)
{
	struct object *o = sr_grow((void **)&s->objects, s->n_objects, &s->room_objects, sizeof(*o));

	if (!o)
		return;
	*o = (struct object){.path = strdup(path), .start = begin, .end = end, .base = begin};
	s->n_objects++;
}

void sr_symbols_free(struct sr_symbols *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_objects; i++)
		free(s->objects[i].path);
	for (size_t i = 0; s->sites && i < s->room_sites; i++)
		free(s->sites[i].text);
	if (s->dwfl)
		dwfl_end(s->dwfl);
	free(s->objects);
	free(s->sites);
	free(s);
}

/* A position-dependent executable lies where its headers say. */
static bool lies_where_it_says(int fd)
{
	Elf64_Ehdr h;

	return pread(fd, &h, sizeof(h), 0) == sizeof(h) && h.e_type == ET_EXEC;
}

static void open_module(struct sr_symbols *s, struct object *o)
{
	struct sr_object_identity id;
	int fd;

	o->tried = true;
	fd = o->path ? sr_object_open(o->path) : -1;
	if (fd < 0)
		return;
	/* Names and lines of another build would be wrong. */
	if (!sr_object_is_same_file(fd, o->json, &id)) {
		close(fd);
		return;
	}
	dwfl_report_begin_add(s->dwfl);
	o->module = dwfl_report_elf(s->dwfl, o->path, o->path, fd,
				    lies_where_it_says(fd) ? 0 : o->base, false);
	dwfl_report_end(s->dwfl, NULL, NULL);
	/* libdw owns the descriptor now, unless it refused the file. */
	if (!o->module)
		close(fd);
}

static struct object *object_at(struct sr_symbols *s, uint64_t address)
{
	for (size_t i = 0; i < s->n_objects; i++) {
		struct object *o = &s->objects[i];

		if (address < o->start || address >= o->end)
			continue;
		if (!o->tried)
			open_module(s, o);
		return o;
	}
	return NULL;
}

/* ------------------------------------------------------------------ words */

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Calls are inline functions of these headers; the site is where they are used. */
static bool is_verbs_header(const char *file)
{
	static const char *const headers[] = {"verbs.h", "verbs_api.h", "rdma_verbs.h"};

	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		if (!strcmp(last_part(file), headers[i]))
			return true;
	return false;
}

struct place {
	const char *function, *file;
	int line;
};

static bool has_code(Dwarf_Die *scope)
{
	return dwarf_tag(scope) == DW_TAG_subprogram ||
	       dwarf_tag(scope) == DW_TAG_inlined_subroutine;
}

static Dwarf_Word attribute(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute a;
	Dwarf_Word v = 0;

	return dwarf_formudata(dwarf_attr(die, name, &a), &v) ? 0 : v;
}

/* While the place is in such a header, moves out to the place that inlined it. */
static void leave_headers(Dwfl_Module *module, uint64_t address, struct place *p)
{
	Dwarf_Addr bias;
	Dwarf_Die *unit = dwfl_module_addrdie(module, address, &bias), *scopes = NULL;
	Dwarf_Files *files;
	size_t files_n;
	int n = unit ? dwarf_getscopes(unit, address - bias, &scopes) : 0;

	if (n > 0 && dwarf_getsrcfiles(unit, &files, &files_n))
		n = 0;
	for (int i = 0; i < n && is_verbs_header(p->file); i++) {
		const char *file;

		if (dwarf_tag(&scopes[i]) != DW_TAG_inlined_subroutine)
			continue;
		file = dwarf_filesrc(files, attribute(&scopes[i], DW_AT_call_file), NULL, NULL);
		if (!file)
			break;
		p->file = file;
		p->line = (int)attribute(&scopes[i], DW_AT_call_line);
		for (int k = i + 1; k < n; k++)
			if (has_code(&scopes[k])) {
				p->function = dwarf_diename(&scopes[k]) ? dwarf_diename(&scopes[k])
									: p->function;
				break;
			}
	}
	free(scopes);
}

/*
 * "function (file.c:12)" or "function+0x1f (object)"; false: no function is known.  behind:
 * distance from this address, which finds the function, to the address to print.
 */
static bool describe(Dwfl_Module *module, uint64_t address, unsigned int behind, const char *object,
		     char *text, size_t size)
{
	GElf_Off offset = 0;
	GElf_Sym symbol;
	struct place p = {0};
	Dwfl_Line *line;

	p.function = dwfl_module_addrinfo(module, address, &offset, &symbol, NULL, NULL, NULL);
	line = dwfl_module_getsrc(module, address);
	if (line)
		p.file = dwfl_lineinfo(line, NULL, &p.line, NULL, NULL, NULL);
	if (!p.function)
		return false;
	if (p.file)
		leave_headers(module, address, &p);
	if (p.file)
		snprintf(text, size, "%s (%s:%d)", p.function, last_part(p.file), p.line);
	else
		snprintf(text, size, "%s+0x%llx (%s)", p.function,
			 (unsigned long long)offset + behind, object);
	return true;
}

/* The call is before the return address, whose line may be the next one. */
static char *make_site(struct sr_symbols *s, uint64_t return_address)
{
	uint64_t address = return_address - 1;
	struct object *o = object_at(s, address);
	char text[512] = "";

	if (o && o->path &&
	    !(o->module && describe(o->module, address, 1, last_part(o->path), text, sizeof(text))))
		snprintf(text, sizeof(text), "%s+0x%llx", last_part(o->path),
			 (unsigned long long)(return_address - o->base));
	return strdup(text);
}

/* ------------------------------------------------------------------ cache */

static struct site *find_site(struct site *sites, size_t room, uint64_t address)
{
	size_t i = (size_t)(address * 0x9e3779b97f4a7c15ull >> 32) & (room - 1);

	while (sites[i].address && sites[i].address != address)
		i = (i + 1) & (room - 1);
	return &sites[i];
}

static bool grow(struct sr_symbols *s)
{
	size_t room = 2 * s->room_sites;
	struct site *sites = calloc(room, sizeof(*sites));

	if (!sites)
		return false;
	for (size_t i = 0; i < s->room_sites; i++)
		if (s->sites[i].address)
			*find_site(sites, room, s->sites[i].address) = s->sites[i];
	free(s->sites);
	s->sites = sites;
	s->room_sites = room;
	return true;
}

const char *sr_symbols_site(struct sr_symbols *s, uint64_t return_address)
{
	struct site *site;

	if (!s || !return_address)
		return "";
	site = find_site(s->sites, s->room_sites, return_address);
	if (site->address)
		return site->text;
	if (4 * (s->n_sites + 1) > 3 * s->room_sites) {
		if (!grow(s))
			return "";
		site = find_site(s->sites, s->room_sites, return_address);
	}
	site->text = make_site(s, return_address);
	if (!site->text)
		return "";
	site->address = return_address;
	s->n_sites++;
	return site->text;
}

/* ----------------------------------------------------------------- stacks */

struct stack {
	FILE *out;
	const char *indent;
	Dwfl *dwfl;
	unsigned int shown;
};

static int print_frame(Dwfl_Frame *frame, void *argument)
{
	struct stack *st = argument;
	bool activation;
	Dwarf_Addr pc;
	Dwfl_Module *module;
	const char *name = NULL;
	char text[512];

	if (!dwfl_frame_pc(frame, &pc, &activation) || st->shown == FRAMES_SHOWN)
		return DWARF_CB_ABORT;
	/* All frames but the innermost are at a return address. */
	if (!activation)
		pc--;
	module = dwfl_addrmodule(st->dwfl, pc);
	if (module)
		name = dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
	if (!module || !name ||
	    !describe(module, pc, !activation, last_part(name), text, sizeof(text)))
		snprintf(text, sizeof(text), "0x%llx (%s)", (unsigned long long)pc,
			 name ? last_part(name) : "no file");
	fprintf(st->out, "%s%s\n", st->indent, text);
	st->shown++;
	return DWARF_CB_OK;
}

bool sr_symbols_print_stack(FILE *out, const char *indent, pid_t process, pid_t thread)
{
	struct stack st = {out, indent, dwfl_begin(&live_callbacks), 0};

	if (!st.dwfl)
		return false;
	if (!dwfl_linux_proc_report(st.dwfl, process) && !dwfl_report_end(st.dwfl, NULL, NULL) &&
	    !dwfl_linux_proc_attach(st.dwfl, process, false))
		dwfl_getthread_frames(st.dwfl, thread, print_frame, &st);
	dwfl_end(st.dwfl);
	return st.shown > 0;
}
