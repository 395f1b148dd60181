/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for what dpacc knows by itself: its intrinsics as fences, its attributes as nothing. */
#ifndef SDR_TEST_DPAINTRIN_H
#define SDR_TEST_DPAINTRIN_H
#define __dpa_global__
#define __dpa_rpc__
#define __dpa_thread_memory_writeback() __asm__ volatile("fence w,w" ::: "memory")
#define __dpa_thread_window_writeback() __asm__ volatile("fence w,w" ::: "memory")
#define __dpa_thread_system_fence() __asm__ volatile("fence rw,rw" ::: "memory")
#endif
