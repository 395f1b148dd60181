// SPDX-License-Identifier: Apache-2.0

//go:build !race

// One goroutine moves everything, in virtual time: the race detector has nothing to find.

package main

func Example() {
	main()
	// Output:
	// 10 transfers of 16 MiB, 10 Gbit/s, 20 ms, 0.001 of the packets of 4 KiB lost; ideal 33.42 ms
	// none      mean  60.4 ms, 1.81 of ideal,  0 units repeated, 49 missing
	// rounds    mean 102.6 ms, 3.07 of ideal, 49 units repeated,  0 missing
	// sr        mean  96.9 ms, 2.90 of ideal, 49 units repeated,  0 missing
	// sr-nack   mean  51.2 ms, 1.53 of ideal, 49 units repeated,  0 missing
}
