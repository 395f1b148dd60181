/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SDR_TEST_FLEXIO_DEV_VER_H
#define SDR_TEST_FLEXIO_DEV_VER_H
#define FLEXIO_DEV_VER(a, b, c) ((a) << 16 | (b) << 8 | (c))
#endif
