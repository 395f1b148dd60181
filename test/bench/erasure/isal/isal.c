// SPDX-License-Identifier: Apache-2.0

// Times ISA-L for the benchmark beside it, which starts this program and writes
// lines such as
//
//	encode K M LOST UNIT GROUPS
//
// to its standard input. Each line is answered by how many nanoseconds of the CPU
// one pass over all groups took. Operations: encode, decode (coefficients known before),
// invert (coefficients computed for each group) and xor.

#include <isa-l.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX = 256, MINIMUM_NS = 20000000 };

static int k, m, lost, unit, groups;
static uint8_t *memory;
static uint8_t **units; // of each group: k data, m parity, lost results
static uint8_t matrix[MAX * MAX], tables[MAX * MAX * 32];

static void fail(const char *why)
{
	fprintf(stderr, "isal: %s\n", why);
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void prepare(void)
{
	size_t each = k + m + lost;
	free(memory);
	free(units);
	if (posix_memalign((void **)&memory, 4096, groups * each * unit))
		fail("out of memory");
	units = malloc(groups * each * sizeof *units);
	for (size_t i = 0; i < groups * each; i++) {
		units[i] = memory + i * unit;
		for (int j = 0; j < unit; j++)
			units[i][j] = (i * 131 + j * 7) >> 3;
	}
	gf_gen_cauchy1_matrix(matrix, k + m, k);
}

// missing is the position of the i-th lost unit.
static int missing(int i) { return i * (k / lost); }

static void encode_tables(void) { ec_init_tables(k, m, matrix + k * k, tables); }

// decode_tables makes the coefficients that turn the units in place, with the
// first parity units instead of those that are missing, into the missing ones.
static void decode_tables(void)
{
	static uint8_t in[MAX * MAX], inverse[MAX * MAX], rows[MAX * MAX];
	int parity = 0;
	for (int i = 0; i < k; i++) {
		int row = parity < lost && i == missing(parity) ? k + parity++ : i;
		memcpy(in + i * k, matrix + row * k, k);
	}
	if (gf_invert_matrix(in, inverse, k))
		fail("singular");
	for (int i = 0; i < lost; i++)
		memcpy(rows + i * k, inverse + missing(i) * k, k);
	ec_init_tables(k, lost, rows, tables);
}

static void encode(uint8_t **u) { ec_encode_data(unit, k, m, tables, u, u + k); }

static void decode(uint8_t **u)
{
	uint8_t *in[MAX];
	int parity = 0;
	for (int i = 0; i < k; i++)
		in[i] = u[parity < lost && i == missing(parity) ? k + parity++ : i];
	ec_encode_data(unit, k, lost, tables, in, u + k + m);
}

static void invert(uint8_t **u)
{
	decode_tables();
	decode(u);
}

static void xor(uint8_t **u)
{
	for (int row = 0; row < m; row++) {
		void *v[MAX];
		int n = 0;
		for (int j = row; j < k; j += m)
			v[n++] = u[j];
		v[n++] = u[k + row];
		if (xor_gen(n, unit, v))
			fail("xor_gen");
	}
}

// check decodes once and compares.
static void check(void (*op)(uint8_t **))
{
	encode_tables();
	encode(units);
	decode_tables();
	op(units);
	for (int i = 0; i < lost; i++)
		if (memcmp(units[k + m + i], units[missing(i)], unit))
			fail("decoded something else");
}

static double pass(void (*op)(uint8_t **))
{
	int passes = 0;
	double begin = now(), took;
	do {
		for (int g = 0; g < groups; g++)
			op(units + (size_t)g * (k + m + lost));
		passes++;
		took = now() - begin;
	} while (took < MINIMUM_NS);
	return took / passes;
}

int main(void)
{
	char name[16], last[128] = "", line[128];
	void (*op)(uint8_t **) = encode;
	printf("%d.%d.%d\n", ISAL_MAJOR_VERSION, ISAL_MINOR_VERSION, ISAL_PATCH_VERSION);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		if (strcmp(line, last)) {
			if (sscanf(line, "%15s %d %d %d %d %d", name, &k, &m, &lost, &unit, &groups) != 6 ||
			    k < 1 || m < 1 || lost < 0 || lost > m || lost > k || k + m > MAX - 1 || unit < 1 || groups < 1)
				fail("bad request");
			prepare();
			op = !strcmp(name, "decode") ? decode : !strcmp(name, "invert") ? invert : !strcmp(name, "xor") ? xor : encode;
			if (op == encode || op == xor)
				encode_tables();
			else
				check(op);
			strcpy(last, line);
		}
		printf("%.0f\n", pass(op));
		fflush(stdout);
	}
}
