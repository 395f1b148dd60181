// SPDX-License-Identifier: Apache-2.0

package verbs

import "fmt"

// transition names the attributes of one step of the QP state machine (IBTA volume 1, table 91;
// qp_state_table in the kernel's drivers/infiniband/core/verbs.c).
type transition struct {
	from, to           QPState
	required, optional map[QPType]QPAttrMask
}

var transitions = []transition{
	{Reset, Init,
		map[QPType]QPAttrMask{
			RC: MaskPKeyIndex | MaskPort | MaskAccess,
			UC: MaskPKeyIndex | MaskPort | MaskAccess,
			UD: MaskPKeyIndex | MaskPort | MaskQKey,
		}, nil},
	{Init, RTR,
		map[QPType]QPAttrMask{
			RC: MaskAV | MaskPathMTU | MaskDestQPN | MaskRQPSN | MaskMaxDestReadAtomic | MaskMinRNRTimer,
			UC: MaskAV | MaskPathMTU | MaskDestQPN | MaskRQPSN,
			UD: 0,
		},
		map[QPType]QPAttrMask{
			RC: MaskAltPath | MaskAccess | MaskPKeyIndex,
			UC: MaskAltPath | MaskAccess | MaskPKeyIndex,
			UD: MaskPKeyIndex | MaskQKey,
		}},
	{RTR, RTS,
		map[QPType]QPAttrMask{
			RC: MaskTimeout | MaskRetryCount | MaskRNRRetry | MaskSQPSN | MaskMaxQPReadAtomic,
			UC: MaskSQPSN,
			UD: MaskSQPSN,
		},
		map[QPType]QPAttrMask{
			RC: MaskCurState | MaskAltPath | MaskAccess | MaskMinRNRTimer | MaskPathMigrationState,
			UC: MaskCurState | MaskAltPath | MaskAccess | MaskPathMigrationState,
			UD: MaskCurState | MaskQKey,
		}},
}

// transitionFix compares a step that the kernel refused with the table; "" when it is not at fault.
func transitionFix(t QPType, from, to QPState, mask QPAttrMask) string {
	switch {
	case to == Reset || to == ErrState || from >= RTS && from != ErrState && (to == RTS || to == SQD):
		return ""
	case from >= RTS:
		return fmt.Sprintf("from %v a QP can't go to %v: Modify to RESET makes it fresh", from, to)
	}
	for _, tr := range transitions {
		if tr.from != from || tr.to != to {
			continue
		}
		if missing := tr.required[t] &^ mask; missing != 0 {
			return fmt.Sprintf("the mask lacks %v", missing)
		}
		if extra := mask &^ (tr.required[t] | tr.optional[t] | MaskState); extra != 0 {
			return fmt.Sprintf("the mask must not have %v", extra)
		}
		return ""
	}
	return fmt.Sprintf("a QP goes RESET, INIT, RTR, RTS: from %v it can't go to %v", from, to)
}
