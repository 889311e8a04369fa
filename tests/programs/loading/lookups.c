/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lookups.c: a program that reaches libibverbs by dlopen and dlsym alone, and looks
 * up other things in all the ways there are.  MODULE
 *
 * What it prints is the same with and without the shim.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include <infiniband/verbs.h>

pid_t parent_by_way_of_next(void);

static void *loaded(const char *name)
{
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		printf("%s\n", dlerror());
	return handle;
}

static void say(const char *what, int is)
{
	printf("%s: %s\n", what, is ? "yes" : "no");
}

static int use_a_device(void *verbs)
{
	struct ibv_device **(*get_list)(int *) =
	    (struct ibv_device * *(*)(int *)) dlsym(verbs, "ibv_get_device_list");
	struct ibv_context *(*open_device)(struct ibv_device *) =
	    (struct ibv_context * (*)(struct ibv_device *))
		dlvsym(verbs, "ibv_open_device", "IBVERBS_1.1");
	struct ibv_cq *(*create_cq)(struct ibv_context *, int, void *, struct ibv_comp_channel *,
				    int) =
	    (struct ibv_cq * (*)(struct ibv_context *, int, void *, struct ibv_comp_channel *, int))
		dlsym(verbs, "ibv_create_cq");
	int (*destroy_cq)(struct ibv_cq *) =
	    (int (*)(struct ibv_cq *))dlsym(verbs, "ibv_destroy_cq");
	int (*close_device)(struct ibv_context *) =
	    (int (*)(struct ibv_context *))dlsym(verbs, "ibv_close_device");
	struct ibv_device **list = get_list(NULL);
	struct ibv_context *context = list && list[0] ? open_device(list[0]) : NULL;
	struct ibv_cq *cq = context ? create_cq(context, 8, NULL, NULL, 0) : NULL;
	struct ibv_wc wc;

	return cq && !ibv_poll_cq(cq, 1, &wc) && !destroy_cq(cq) && !close_device(context);
}

int main(int argc, char **argv)
{
	void *module = loaded(argv[1]), *libc = loaded("libc.so.6"), *self = dlopen(NULL, RTLD_NOW);
	void *verbs, *(*ask)(const char *);
	pid_t (*getpid_of_libc)(void);
	const char *error;

	if (!module || !libc)
		return 1;
	ask = (void *(*)(const char *))dlsym(module, "ask_for_default");
	say("before it is loaded, anybody has ibv_open_device",
	    dlsym(RTLD_DEFAULT, "ibv_open_device") || dlsym(self, "ibv_open_device"));
	error = dlerror();
	say("there is an error", error != NULL);
	verbs = loaded("libibverbs.so.1");
	if (!verbs)
		return 1;

	say("the module finds its own by RTLD_DEFAULT", ask("only_in_the_module") != NULL);
	say("so does the program", dlsym(RTLD_DEFAULT, "only_in_the_module") != NULL);
	say("a function that calls the next of its name is not called again",
	    parent_by_way_of_next() == getppid());
	say("the version decides",
	    dlvsym(verbs, "ibv_open_device", "IBVERBS_1.1") == dlsym(verbs, "ibv_open_device"));
	say("a version that is not there", dlvsym(verbs, "ibv_open_device", "IBVERBS_0.9") != NULL);
	dlerror();
	say("a name that is not there", dlsym(verbs, "ibv_nonesuch") != NULL);
	error = dlerror();
	printf("%s\n", error ? error : "no error");
	say("a module's own function of that name",
	    dlsym(module, "ibv_fork_init") == dlsym(module, "the_modules_fork_init"));
	say("a device works", use_a_device(verbs));
	/* Recorded from here on. */
	getpid_of_libc = (pid_t(*)(void))dlsym(libc, "getpid");
	say("libc's getpid", getpid_of_libc() == getpid());
	return 3;
}
