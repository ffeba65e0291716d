package hostprep

import "github.com/cps-gpu/homelab/converge"

// BackupSuffix is what tests from outside find copies by.
const BackupSuffix = backupSuffix

// Diff describes all changes for a plan. A setting that is not safe to change is a difference, too.
func (spec Spec) Diff(s State) converge.Diff {
	all, err := spec.Changes(s)
	if err != nil {
		return converge.Diff{{Path: Boot, Have: err.Error(), Want: "lines that can be changed"}}
	}
	var d converge.Diff
	for _, c := range all {
		d = append(d, c.Diff()...)
	}
	return d
}
