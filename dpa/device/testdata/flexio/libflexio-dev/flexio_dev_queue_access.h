/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SDR_TEST_FLEXIO_DEV_QUEUE_ACCESS_H
#define SDR_TEST_FLEXIO_DEV_QUEUE_ACCESS_H
#include <stdint.h>
void flexio_dev_cq_arm(uint32_t ci, uint32_t qnum);
#endif
