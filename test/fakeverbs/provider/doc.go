// SPDX-License-Identifier: Apache-2.0

// Package provider tests the mlx5 and rxe providers of package verbs on fake devices.
package provider
