// SPDX-License-Identifier: Apache-2.0

package uapi

import "unsafe"

// The build fails on a size that the kernel does not expect: an index out of range in a constant.
const (
	_ = -(unsafe.Sizeof(IoctlHdr{}) ^ 24)
	_ = -(unsafe.Sizeof(Attr{}) ^ 16)
	_ = -(unsafe.Sizeof(QueryDeviceResp{}) ^ 176)
	_ = -(unsafe.Sizeof(QueryPortRespEx{}) ^ 48)
	_ = -(unsafe.Sizeof(GidEntry{}) ^ 32)
	_ = -(unsafe.Sizeof(RegMr{}) ^ 40)
	_ = -(unsafe.Sizeof(RegMrResp{}) ^ 12)
	_ = -(unsafe.Sizeof(AllocMw{}) ^ 16)
	_ = -(unsafe.Sizeof(QpCap{}) ^ 20)
	_ = -(unsafe.Sizeof(QpDest{}) ^ 32)
	_ = -(unsafe.Sizeof(ModifyQp{}) ^ 112)
	_ = -(unsafe.Sizeof(QueryQpResp{}) ^ 128)
	_ = -(unsafe.Sizeof(PostSend{}) ^ 24)
	_ = -(unsafe.Sizeof(CreateAh{}) ^ 56)
	_ = -(unsafe.Sizeof(AsyncEventDesc{}) ^ 16)
	_ = -(unsafe.Sizeof(Wc{}) ^ 48)
)

// GidEntrySize is the size of the entries that QUERY_GID_TABLE returns.
const GidEntrySize = int(unsafe.Sizeof(GidEntry{}))
