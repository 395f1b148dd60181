// SPDX-License-Identifier: Apache-2.0

//go:build !race

// One goroutine moves everything, in virtual time: the race detector has nothing to find.

package main

func Example() {
	main()
	// Output:
	// 5 transfers of 16 MiB, 1 Gbit/s, 10 ms, queue 256 KiB; ideal 144.2 ms
	// aimd    mean 1.90 of ideal, 2.1 % of the units repeated
	// search  mean 1.10 of ideal, 3.4 % of the units repeated
	// bbr     mean 1.09 of ideal, 2.4 % of the units repeated
}
