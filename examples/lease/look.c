/* Acts on its partition, and looks at its lease directly before each act:
 *   cc -o look examples/lease/look.c
 *   rota run … --source none:?partitions=8 --own 'exec:./look acts.txt' */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long long boot_time(void)
{
	struct timespec t;
	return clock_gettime(CLOCK_BOOTTIME, &t) ? -1 : t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* look returns the clock, if this command may act; otherwise 0. */
static long long look(void)
{
	const char *name = getenv("ROTA_LEASE_FILE");
	FILE *f = name ? fopen(name, "r") : NULL;
	long long since, end, now;
	int n;

	if (!f)
		return 0;
	n = fscanf(f, "%lld %lld", &since, &end);
	fclose(f);
	now = boot_time(); /* the file first, then the clock */
	return n == 2 && since <= now && now < end ? now : 0;
}

static void note(const char *file, const char *word, long long now)
{
	FILE *f = fopen(file, "a");

	if (!f)
		exit(1);
	fprintf(f, "%s %s %s %lld\n", word, getenv("ROTA_PARTITION"), getenv("ROTA_TOKEN"), now);
	fclose(f);
}

int main(int argc, char **argv)
{
	long long now;

	if (argc != 2)
		return 64;
	while ((now = look())) {
		note(argv[1], "acts", now);
		usleep(20000);
	}
	note(argv[1], "refused", boot_time());
	return 77; /* for a handler of messages: nothing is settled */
}
