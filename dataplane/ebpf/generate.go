// SPDX-License-Identifier: Apache-2.0

package ebpf

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go@v0.22.0 -no-strip -cc clang-14 -target bpfel -cflags "-O2 -mcpu=v3 -Wall -Werror -I/usr/include/x86_64-linux-gnu" -go-package ebpf trim bpf/trim.bpf.c
