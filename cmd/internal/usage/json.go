// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"encoding/json"
	"errors"
)

// JSON says in a person's words what is wrong with JSON that was read, where package json would name a type of Go.
func JSON(err error) string {
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return err.Error()
	case wrong.Field == "":
		return "there is a JSON " + wrong.Value
	}
	return wrong.Field + " is a JSON " + wrong.Value
}
