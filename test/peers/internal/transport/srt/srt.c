/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One side of an SRT connection in file mode:
 *
 *	srt send|receive LOCAL REMOTE PORT MTU SIZE
 *
 * File descriptor 3 is memory of SIZE bytes that transfers come from or go to. It
 * prints libsrt's version, then reads commands and answers each with a line:
 *
 *	connect   makes a new connection                      ok
 *	move N    moves N bytes, and one back that says so    nanoseconds
 *
 * A line that begins with ! is an error.
 */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <srt/srt.h>

enum { BUFFER = 64 << 20, WINDOW = 65536, PIECE = 1 << 20 };

static int sending, mtu;
static struct sockaddr_in local, remote;
static char *memory;
static SRTSOCKET listener = SRT_INVALID_SOCK, sock = SRT_INVALID_SOCK;

static void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int set(SRTSOCKET s, SRT_SOCKOPT option, int value)
{
	return srt_setsockflag(s, option, &value, sizeof value) == SRT_ERROR;
}

/* Buffers and windows that don't limit on this link; libsrt's own are smaller. */
static SRTSOCKET make(void)
{
	SRT_TRANSTYPE file = SRTT_FILE;
	SRTSOCKET s = srt_create_socket();

	if (s == SRT_INVALID_SOCK ||
	    srt_setsockflag(s, SRTO_TRANSTYPE, &file, sizeof file) == SRT_ERROR ||
	    set(s, SRTO_MSS, mtu) || set(s, SRTO_FC, WINDOW) ||
	    set(s, SRTO_SNDBUF, BUFFER) || set(s, SRTO_RCVBUF, BUFFER) ||
	    set(s, SRTO_UDP_SNDBUF, 4 << 20) || set(s, SRTO_UDP_RCVBUF, 4 << 20))
		return SRT_INVALID_SOCK;
	return s;
}

static int start(void)
{
	if (sending)
		return 0;
	listener = make();
	return listener == SRT_INVALID_SOCK ||
	       srt_bind(listener, (struct sockaddr *)&local, sizeof local) == SRT_ERROR ||
	       srt_listen(listener, 1) == SRT_ERROR;
}

static int establish(void)
{
	struct linger none = {1, 0};

	if (sock != SRT_INVALID_SOCK)
		srt_close(sock);
	if (!sending) {
		sock = srt_accept(listener, NULL, NULL);
	} else {
		sock = make();
		if (sock != SRT_INVALID_SOCK &&
		    srt_connect(sock, (struct sockaddr *)&remote, sizeof remote) == SRT_ERROR)
			return 1;
	}
	return sock == SRT_INVALID_SOCK ||
	       srt_setsockflag(sock, SRTO_LINGER, &none, sizeof none) == SRT_ERROR;
}

static int move(int64_t n)
{
	int64_t at = 0;
	char ack = 1;

	while (at < n) {
		int most = n - at < PIECE ? n - at : PIECE;
		int did = sending ? srt_send(sock, memory + at, most) : srt_recv(sock, memory + at, most);

		if (did <= 0)
			return 1;
		at += did;
	}
	return (sending ? srt_recv(sock, &ack, 1) : srt_send(sock, &ack, 1)) != 1;
}

static void serve(void)
{
	char line[100];

	while (fgets(line, sizeof line, stdin)) {
		int64_t begun = now();
		int failed = line[0] == 'c' ? establish() : move(atoll(line + 5));

		if (failed)
			say("!%s", srt_getlasterror_str());
		else if (line[0] == 'c')
			say("ok");
		else
			say("%lld", (long long)(now() - begun));
	}
}

int main(int argc, char **argv)
{
	uint32_t version = srt_getversion();

	if (argc != 7)
		return 2;
	sending = !strcmp(argv[1], "send");
	local.sin_family = remote.sin_family = AF_INET;
	local.sin_port = remote.sin_port = htons(atoi(argv[4]));
	mtu = atoi(argv[5]);
	if (inet_pton(AF_INET, argv[2], &local.sin_addr) != 1 || inet_pton(AF_INET, argv[3], &remote.sin_addr) != 1)
		return 2;
	memory = mmap(NULL, atoll(argv[6]), PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
	if (memory == MAP_FAILED)
		return 2;
	srt_startup();
	if (start())
		say("!%s", srt_getlasterror_str());
	else
		say("%d.%d.%d", version >> 16, version >> 8 & 255, version & 255);
	serve();
	srt_close(sock);
	srt_close(listener);
	srt_cleanup();
	return 0;
}
