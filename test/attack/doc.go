// SPDX-License-Identifier: Apache-2.0

// Package attack holds tests of what a network, or somebody on it, can do to a connection in the middle of a
// transfer: the whole stack between two hosts in network namespaces. It has no code of its own.
package attack
